"""How a reply of each act is read by its scheme, as a writer's label would say it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.thoughts import split
from sottovoce.environments import react
from sottovoce.graphs import mad, madra, reconcile
from sottovoce.graphs.react import action_in
from sottovoce.nodes.decide import read_vote
from sottovoce.nodes.question import Question
from sottovoce.prompts import kinds

REPLIES = Path(__file__).with_name("replies")
Played = JSON
Read = Callable[[Message, Played], Any]  # Any: an answer, numbers, a verdict or an action


def _by_ballot(message: Message, reply: Played) -> str | None:
    return read_vote(message, question_of(reply))["answer"]


def _reconciled(message: Message, reply: Played) -> str | None:
    return reconcile.stated(message, question_of(reply)).answer


def _boxed(message: Message, reply: Played) -> str | None:
    inside = kinds.boxed(message, question_of(reply))
    return None if inside is None else kinds.read_field(inside, question_of(reply))


def _done(found: react.Action | react.Malformed) -> dict[str, str] | None:
    return {"action": found.verb, "argument": found.argument} if isinstance(found, react.Action) else None


READERS: dict[tuple[str, str], Read] = {
    ("mad", "moderate"): lambda message, reply: mad.verdict(message, question_of(reply)).answer,
    ("mad", "judge"): lambda message, reply: mad.judgement(message, question_of(reply)).answer,
    ("mad", "list_candidates"): lambda message, reply: None,  # candidates decide nothing
    ("reconcile", "answer"): _reconciled,
    ("reconcile", "revise"): _reconciled,
    ("madra", "select"): lambda message, reply: madra.selected(message, reply["offered"], 3),
    ("madra", "agree"): lambda message, reply: madra.verdict(message),
    ("react", "step"): lambda message, reply: _done(action_in(message)),
    ("react", "action"): lambda message, reply: _done(action_in(message)),
    ("ia", "talk"): _boxed,
}
"""By scheme and act; any other reply is read by the ordinary read_vote."""


def played(pattern: str = "*.jsonl") -> Iterator[Played]:
    """Yield the labelled replies of all writers."""
    for path in sorted(REPLIES.glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def question_of(reply: Played) -> Question:
    """Return the question that a reply answers."""
    return {"question": reply["question"], "kind": reply["kind"], "choices": reply.get("choices") or []}


def read(reply: Played) -> JSONValue:
    """Return what its scheme reads from a reply."""
    message = Message(reply["agent"], 0, reply["act"], split(reply["reply"]).text)
    return READERS.get((reply["scheme"], reply["act"]), _by_ballot)(message, reply)


def verdict(reply: Played) -> str:
    """Return `agrees`, `asked` (an answer was given and none is stated) or `misreads` (another one was read)."""
    found, meant = read(reply), reply["meant"]
    if not isinstance(meant, str):
        return "agrees" if (found or None) == (meant or None) else "misreads" if found else "asked"
    if found is None:
        return "asked"
    return "agrees" if kinds.right(found, {**question_of(reply), "target": meant}) else "misreads"
