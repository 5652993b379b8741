"""Tests a bridge on questions of another kind than it was fitted on, beside three bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sottovoce.bridges.pairs import head_of, keys_values
from sottovoce.bridges.refine import prompt_of
from sottovoce.channels.bridge import Bridge, Carried
from sottovoce.datasets.facts import briefings
from sottovoce.models import Cached, Ids, LoadedModel, Piece, Request, Stop
from sottovoce.nodes.question import Question, passages_of

SAMPLE, SEED = "briefing", 7
MANNER = " Answer with a few words."
LONGEST = 24  # tokens of an answer
AT_ONCE = 12


def trial(
    bridge: Bridge,
    sender: LoadedModel,
    receiver: LoadedModel,
    n: int,
    report: Callable[[float], object],
) -> Carried:
    """Ask the receiver about one of four facts that it gets through the bridge, and by three other ways, greedily."""
    questions = briefings(SAMPLE, n, seed=SEED)
    texts = [" ".join(passage["text"] for passage in passages_of(question, None)) for question in questions]
    right = dict.fromkeys(("bridge", "own", "shuffled", "nothing"), 0)
    for start in range(0, n, AT_ONCE):
        some = questions[start : start + AT_ONCE]
        before: dict[str, Sequence[tuple[Piece, ...]]] = {"nothing": [()] * len(some)}
        told = texts[start : start + AT_ONCE]
        before["bridge"] = [(piece,) for piece in _mapped(bridge, sender, receiver, told)]
        others = [texts[(start + i + 1) % n] for i in range(len(some))]
        before["shuffled"] = [(piece,) for piece in _mapped(bridge, sender, receiver, others)]
        head = Ids(head_of(receiver))
        before["own"] = [(head, Ids(receiver.chat.ids(text, plain=True))) for text in told]
        for way, pieces in before.items():
            right[way] += _right(receiver, some, pieces)
        report((start + len(some)) / n)
    return Carried(n, **right)


def _mapped(bridge: Bridge, sender: LoadedModel, receiver: LoadedModel, texts: Sequence[str]) -> list[Cached]:
    read = keys_values(sender, [sender.chat.ids(text, plain=True) for text in texts], keys=False)
    return [bridge.piece(each.values, receiver, first=True) for each in read]


def _right(receiver: LoadedModel, questions: Sequence[Question], before: Sequence[tuple[Piece, ...]]) -> int:
    stop = Stop(LONGEST, receiver.stop_ids)
    asked = [Ids(prompt_of(receiver, question["question"] + MANNER)) for question in questions]
    replies = receiver.engine.run_all(
        [Request((*pieces, ids), stop) for pieces, ids in zip(before, asked, strict=True)]
    )
    texts = [receiver.detokenizer(special=False).text(reply.ids) for reply in replies]
    return sum(named(text, question["target"]) for text, question in zip(texts, questions, strict=True))


def named(text: str, target: str) -> bool:
    """Return True if a text has the target as a word."""
    return re.search(rf"(?<!\w){re.escape(target.lower())}(?!\w)", text.lower()) is not None
