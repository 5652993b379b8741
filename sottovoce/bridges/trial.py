"""Tests a bridge on questions of another kind than it was fitted on, beside three bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sottovoce.bridges.pairs import head_of, keys_values
from sottovoce.bridges.refine import prompt_of
from sottovoce.channels.bridge import Bridge, handed
from sottovoce.channels.bridge_files import Carried
from sottovoce.datasets.facts import briefings
from sottovoce.models import Ids, LoadedModel, Piece, Request, Stop
from sottovoce.nodes.question import Question, passages_of
from sottovoce.prompts.kinds.kind import stands_in

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
    read = keys_values(sender, [sender.chat.ids(text, plain=True) for text in texts], keys=False)
    mapped = [(bridge.piece(handed(each, sender), range(len(each.at)), receiver, first=True),) for each in read]
    head = Ids(head_of(receiver))
    before: dict[str, Sequence[tuple[Piece, ...]]] = {
        "bridge": mapped,
        "own": [(head, Ids(receiver.chat.ids(text, plain=True))) for text in texts],
        "shuffled": [*mapped[1:], *mapped[:1]],
        "nothing": [()] * n,
    }
    right = dict.fromkeys(before, 0)
    for start in range(0, n, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        for way, pieces in before.items():
            right[way] += _right(receiver, questions[part], pieces[part])
        report(min(start + AT_ONCE, n) / n)
    return Carried(n, **right)


def _right(receiver: LoadedModel, questions: Sequence[Question], before: Sequence[tuple[Piece, ...]]) -> int:
    stop = Stop(LONGEST, receiver.stop_ids)
    asked = [Ids(prompt_of(receiver, question["question"] + MANNER)) for question in questions]
    replies = receiver.engine.run_all(
        [Request((*pieces, ids), stop) for pieces, ids in zip(before, asked, strict=True)]
    )
    texts = [receiver.detokenizer(special=False).text(reply.ids) for reply in replies]
    return sum(stands_in(question["target"], text) for text, question in zip(texts, questions, strict=True))
