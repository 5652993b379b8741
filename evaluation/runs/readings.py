"""How the answers of a run were read: at once, from another reply in the form, from an answer turn, or not at all."""

from __future__ import annotations

from collections import Counter
from typing import cast

from sottovoce.evaluation.runs.record import Readings, Run
from sottovoce.graphs import scheme
from sottovoce.nodes.decide import voted
from sottovoce.nodes.state import Discussion, Vote, heard


def readings(run: Run) -> Readings:
    """Count over all rounds, one a reply that states an answer."""
    found = Counter(map(_reading, _votes(run)))
    return Readings(**found)


def _votes(run: Run) -> list[Vote]:
    """As the scheme counted them after its rounds; else read from the messages, as a rule reads those of the last."""
    if run.counts:
        return [cast for count in run.counts for cast in count.votes]
    state = cast(Discussion, {**run.question, "board": run.messages, "epochs": [reset.cut for reset in run.resets]})
    answers = scheme(run.scheme).answers
    return [voted(message, state) for message in heard(state) if message.act in answers]


def _reading(vote: Vote) -> str:
    if vote["answer"] is None:
        return "abstained"
    return {"repair": "repair", "answer": "answer_turn"}.get(vote.get("asked", ""), "at_once")
