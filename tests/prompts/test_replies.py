"""Labelled replies: what is stated is read as meant, all else is asked for.

One file a kind, replies/KIND.jsonl, an object a line: `text`, a small model's reply as it came; `label`, what a person
says it answers, null where it answers nothing; `question`; `choices` where there are any. strong_KIND.jsonl are written
by hand: half of them state their answer as prompts ask, half say it in prose. hard.jsonl and stated.jsonl are strings
as models write them with the answer that is read; null is an abstention, and `asked` says that a person would find one.
one_statement.jsonl are replies that quote, report, suppose, deny or correct, and numbers with doubtful signs.

`python -m tests.prompts.test_replies` prints how many of each file are stated, to be asked, and read wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from sottovoce.channels.message import Message
from sottovoce.core.thoughts import split
from sottovoce.prompts.kinds import OURS, reading, right

REPLIES = Path(__file__).with_name("replies")
ASKED: dict[str, dict[str, Any]] = {
    "number": {"question": "How many?"},
    "option": {
        "question": "Which gas do plants give off?",
        "choices": ["oxygen", "nitrogen", "carbon dioxide", "helium"],
    },
    "yes_no": {"question": "Is a whale a fish?"},
    "label": {"question": "Is the claim true?", "choices": ["True", "False", "Uncertain"]},
    "text": {"question": "Which sea?"},
}
"""The questions of stated.jsonl."""
SMALL = {
    "number": (98, 74, 0),
    "option": (94, 68, 0),
    "yes_no": (70, 121, 1),
    "label": (0, 122, 0),
    "text": (11, 161, 1),
}
"""By kind, of a small model's replies: stated, to be asked, and read though it contradicts itself."""
STRONG = {
    "number": (44, 15, 0),
    "option": (44, 13, 0),
    "yes_no": (34, 17, 0),
    "label": (33, 17, 0),
    "text": (40, 18, 0),
}


def replies(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (REPLIES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def is_cut(text: str) -> bool:
    """Whether a small model's reply ended at the token limit, which its file does not say."""
    return len(text.split()) > 25 and not text.rstrip().endswith((".", "!", "?", ")", "}", '"', "*"))


def said(text: str, *, cut: bool = False) -> Message:
    return Message("agent_1", 0, "answer", split(text).text, cut=cut)


def verdict(reply: dict[str, Any], kind: str, *, cut: bool) -> str:
    """`stated`, `asked`, `wrong`, or `nothing` where there is no answer and none is read."""
    question = {"question": reply["question"], "kind": kind, "choices": reply.get("choices") or []}
    found, label = reading(said(reply["text"], cut=cut), question).answer, reply["label"]
    if found is None:
        return "nothing" if label is None else "asked"
    return "stated" if label is not None and right(found, {**question, "target": label}) else "wrong"


def counted(name: str) -> tuple[int, int, int]:
    kind, is_small = name.removeprefix("strong_"), not name.startswith("strong_")
    found = Counter(verdict(reply, kind, cut=is_small and is_cut(reply["text"])) for reply in replies(name))
    return found["stated"], found["asked"], found["wrong"]


def test_what_is_stated_is_read_and_nothing_else() -> None:
    wrong = []
    for name in ("hard", "stated", "one_statement"):
        for reply in replies(name):
            asked = ASKED[reply["kind"]] if name == "stated" else {"question": "", "choices": []}
            found = reading(said(reply["text"], cut=reply.get("cut", False)), {**asked, **reply}).answer
            meant = reply["answer" if name == "stated" else "label"]
            if found != meant:
                wrong.append((reply["kind"], reply["text"], meant, found))
    assert not wrong


def test_replies_are_read_as_meant_or_asked_for() -> None:
    assert {kind: counted(kind) for kind in OURS} == SMALL
    assert {kind: counted(f"strong_{kind}") for kind in OURS} == STRONG


if __name__ == "__main__":
    for kind in OURS:
        for name in (kind, f"strong_{kind}"):
            stated, asked, wrong = counted(name)
            print(f"{name:14} {len(replies(name)):4} replies: {stated} stated, {asked} to be asked, {wrong} wrong")
