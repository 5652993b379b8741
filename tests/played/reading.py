"""How a reply of each act is read by its scheme, as a writer's label would say it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sottovoce.channels.message import Message
from sottovoce.nodes import in_brackets, mad, reconcile
from sottovoce.nodes.tally import ballot
from sottovoce.prompts import kinds

REPLIES = Path(__file__).with_name("replies")
Played = dict[str, Any]  # Any: JSON
Read = Callable[[Message, Any], str | None]


def _by_ballot(message: Message, question: Any) -> str | None:  # Any: a question
    return ballot(message, question)["answer"]


def _listed(message: Message, question: Any) -> str | None:  # Any: see _by_ballot
    return None  # candidates decide nothing


READERS: dict[tuple[str, str], Read] = {
    ("mad", "moderate"): lambda message, question: mad.verdict(message.text, question).answer,
    ("mad", "judge"): lambda message, question: mad.judgement(message.text, question).answer,
    ("mad", "list_candidates"): _listed,
    ("reconcile", "answer"): lambda message, question: reconcile.stated(message.text, question).answer,
    ("reconcile", "revise"): lambda message, question: reconcile.stated(message.text, question).answer,
    ("madra", "answer"): lambda message, question: in_brackets.stated(message.text, question),
    ("madra", "revise"): lambda message, question: in_brackets.stated(message.text, question),
    ("madra", "summarise"): lambda message, question: in_brackets.stated(message.text, question),
}
"""By scheme and act; any other reply is read by the ordinary ballot."""


def played(pattern: str = "*.jsonl") -> Iterator[Played]:
    """Yield the labelled replies of all writers."""
    for path in sorted(REPLIES.glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def question_of(reply: Played) -> dict[str, Any]:  # Any: a question's own
    """Return the question that a reply answers."""
    found = {"question": reply["question"], "kind": reply["kind"]}
    return {**found, "choices": reply["choices"]} if reply.get("choices") else found


def read(reply: Played) -> str | None:
    """Return the answer that its scheme reads from a reply."""
    message = Message(reply["agent"], 0, reply["act"], reply["reply"])
    return READERS.get((reply["scheme"], reply["act"]), _by_ballot)(message, question_of(reply))


def verdict(reply: Played) -> str:
    """Return `agrees`, `abstains` (an answer was given and none read) or `misreads` (another one was read)."""
    found, meant = read(reply), reply["meant"]
    if found is None or meant is None:
        return "agrees" if found == meant else "abstains" if found is None else "misreads"
    return "agrees" if kinds.right(found, {**question_of(reply), "target": meant}) else "misreads"
