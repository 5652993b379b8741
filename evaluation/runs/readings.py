"""How the answers of a run were read: at once, from another reply in the form, from an answer turn, or not at all."""

from __future__ import annotations

from collections import Counter
from typing import Literal, cast

from sottovoce.channels.message import Message
from sottovoce.evaluation.runs.record import Readings, Run
from sottovoce.graphs import scheme
from sottovoce.nodes.decide import voted
from sottovoce.nodes.state import Discussion, Vote, concluded, heard
from sottovoce.prompts import kinds
from sottovoce.prompts.structured import read_json

ANSWER = "answer"
Way = Literal["at_once", "repair", "answer_turn", "unknown", "abstained"]


def readings(run: Run) -> Readings:
    """Count over all rounds, one a reply that states an answer.

    A reply is read as the scheme counted it after its round; where it counts no rounds, as its rule reads the last.
    """
    state = cast(Discussion, {**run.question, "board": run.messages, "epochs": [reset.cut for reset in run.resets]})
    counted = {(count.epoch, count.round, vote["agent"]): vote for count in run.counts for vote in count.votes}
    answers = scheme(run.scheme).answers
    found = Counter[Way]()
    for message in (each for each in heard(state) if each.act in answers):
        vote = counted.get((message.epoch, message.round, message.agent)) or voted(message, state)
        found[_way(vote, concluded(state, message) or message, state)] += 1
    return Readings(**dict(found))  # type: ignore[arg-type]  # names of its fields


def _way(vote: Vote, last: Message, question: Discussion) -> Way:
    if vote["answer"] is None:
        return "unknown" if _declines(last.whole, question) else "abstained"
    asked = vote.get("asked")
    return "answer_turn" if asked == "answer" else asked or "at_once"


def _declines(text: str, question: Discussion) -> bool:
    """Whether it says that the answer is unknown, in words or in a field."""
    field = read_json(text, (ANSWER,), may_be_empty=(ANSWER,)).found.get(ANSWER)
    return kinds.declines(text) or (field is not None and kinds.is_open(field, question))
