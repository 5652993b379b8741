"""Parse statistics of a discussion: how its answers were read, or why they could not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel

from sottovoce.channels.message import Message
from sottovoce.nodes.decide import voted
from sottovoce.nodes.state import Discussion, Vote, concluded, current_messages
from sottovoce.prompts import kinds
from sottovoce.prompts.structured import read_json
from sottovoce.runs.events import Count

ANSWER = "answer"
Way = Literal["at_once", "repair", "answer_turn", "unknown", "abstained", "mined"]


class ParseStatistics(BaseModel):
    """Counts of replies by how their answers were read, over all rounds; all 0 before there is a decision."""

    at_once: int = 0
    """Read from the reply itself."""
    repair: int = 0
    """Read from another reply, in the form that was asked for."""
    answer_turn: int = 0
    """Read from the answer turn after the reply."""
    unknown: int = 0
    """Abstentions that say that the answer is unknown."""
    abstained: int = 0
    """Replies from which nothing could be read."""
    mined: int = 0
    """Replies counted in the first three fields whose answer was mined from prose, since they have no mark."""


def parse_statistics(state: Discussion, counts: Iterable[Count], answers: tuple[str, ...]) -> ParseStatistics:
    """Count the replies that state answers (in one of the acts `answers`), over all rounds.

    A reply is read as the scheme counted it after its round; without such a count, as the scheme's rule reads it.
    """
    counted = {(count.epoch, count.round, vote["agent"]): vote for count in counts for vote in count.votes}
    found = Counter[Way]()
    for message in (each for each in current_messages(state) if each.act in answers):
        vote = counted.get((message.epoch, message.round, message.agent)) or voted(message, state)
        found[_way(vote, concluded(state, message) or message, state)] += 1
        found["mined"] += vote.get("read") == "mined"
    return ParseStatistics.model_validate(found)


def _way(vote: Vote, last: Message, question: Discussion) -> Way:
    if vote["answer"] is None:
        return "unknown" if _declines(last.full_text, question) else "abstained"
    asked = vote.get("asked")
    return "answer_turn" if asked == "answer" else asked or "at_once"


def _declines(text: str, question: Discussion) -> bool:
    """Return whether a text says that the answer is unknown, in words or in a field."""
    field = read_json(text, (ANSWER,), may_be_empty=(ANSWER,)).values.get(ANSWER)
    return kinds.declines(text) or (field is not None and kinds.is_open(field, question))
