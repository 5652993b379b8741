"""Votes read from messages, and the viewpoints that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

from sottovoce.channels.message import Message
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Vote
from sottovoce.prompts import kinds

NUMBERS = "No One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve".split()


@dataclass(frozen=True)
class Viewpoint:
    """An answer and the votes for it, in agents' order."""

    answer: str
    votes: tuple[Vote, ...]
    order: int
    """0-based place of its first vote: the first speaker wins a tie."""

    @property
    def agents(self) -> list[str]:
        """The agents that voted for it."""
        return [vote["agent"] for vote in self.votes]

    @property
    def weight(self) -> float:
        """The sum of its votes' weights, 1 for a vote without one; rounded, so that .5 + .3 and .8 tie."""
        return round(fsum(vote.get("weight", 1.0) for vote in self.votes), 9)


def read_vote(message: Message, question: Question) -> Vote:
    """Return the vote in a message."""
    return vote_of(message, kinds.reading(message.full_text, question))


def vote_of(message: Message, reading: kinds.Reading) -> Vote:
    """Return the vote of a message's agent from a reading; an abstention does not count."""
    vote: Vote = {"agent": message.agent, "answer": reading.answer, "counts": reading.answer is not None}
    return vote if reading.how is None else {**vote, "read": reading.how}


def boxed(answer: str | None) -> kinds.Reading:
    """Return the reading of an answer in a form's own place: a JSON field, a box, brackets."""
    return kinds.Reading(answer, None if answer is None else "boxed")


def viewpoints(votes: Iterable[Vote], question: Mapping[str, Any]) -> list[Viewpoint]:  # Any: of a Question
    """Return the distinct answers, most votes first, then in the order in which agents first gave them."""
    kind, text, distinct = kinds.kind_of(question), question.get("question", ""), list[Viewpoint]()
    for order, vote in enumerate(votes):
        if (answer := vote["answer"]) is None:
            continue
        at = next((i for i, known in enumerate(distinct) if kinds.same(known.answer, answer, kind, text)), None)
        if at is None:
            distinct.append(Viewpoint(answer, (vote,), order))
        else:
            distinct[at] = replace(distinct[at], votes=(*distinct[at].votes, vote))
    return sorted(distinct, key=lambda viewpoint: -len(viewpoint.votes))


def leading(viewpoints: Sequence[Viewpoint], *, weighed: bool = False) -> list[Viewpoint]:
    """Return the viewpoints with the most votes (or weight), in agents' order; several are a tie."""
    support = {viewpoint.answer: viewpoint.weight if weighed else len(viewpoint.votes) for viewpoint in viewpoints}
    most = max(support.values(), default=0)
    return sorted(
        (viewpoint for viewpoint in viewpoints if support[viewpoint.answer] == most),
        key=lambda viewpoint: viewpoint.order,
    )


def is_tie(votes: Iterable[Vote], question: Mapping[str, Any]) -> bool:  # Any: of a Question
    """Return True if several answers have the most votes."""
    return len(leading(viewpoints(votes, question))) > 1


def abstaining(votes: Iterable[Vote]) -> list[str]:
    """Return the agents whose answer could not be read."""
    return [vote["agent"] for vote in votes if vote["answer"] is None]


def took(vote: Mapping[str, Any]) -> str:  # Any: of a Vote
    """Return the second request that it took to read a vote, for display; empty without one."""
    return {"repair": "asked again", "answer": "asked for the answer"}.get(vote.get("asked", ""), "")


def number(count: int) -> str:
    """Return a count as a word up to twelve, above that in digits."""
    return NUMBERS[count] if count < len(NUMBERS) else str(count)
