"""Progress events of a discussion: small dicts in LangGraph's `custom` stream.

Nodes write them from their own thread or task. Without such a stream they are discarded.
"""

from __future__ import annotations

from typing import Literal, NotRequired

from langgraph.config import get_stream_writer
from typing_extensions import TypedDict

from sottovoce.agents.ask import Call
from sottovoce.nodes.state import Decision


class Progress(TypedDict):
    """One event."""

    type: Literal["round", "act", "decided"]
    """A round begins; an agent is asked; the discussion is decided."""
    round: NotRequired[int]
    """0-based; for rounds and acts."""
    turn: NotRequired[int]
    """0-based, within the round; for acts, as the next four."""
    agent: NotRequired[str]
    act: NotRequired[str]
    attempt: NotRequired[int]
    asked: NotRequired[str]
    """The reason for a repeated request: see `Message.asked`."""
    answer: NotRequired[str | None]
    """For a decision."""
    why: NotRequired[str]
    """For a decision: an explanation in one line."""


def round_begins(round: int) -> None:
    """Write the event that a round begins."""
    _write({"type": "round", "round": round})


def act_begins(call: Call) -> None:
    """Write the event that an agent is asked."""
    place = call.place
    when: Progress = {"type": "act", "agent": place.agent, "act": place.act, "round": place.round, "turn": place.turn}
    _write({**when, "attempt": place.attempt, "asked": call.asked})


def is_decided(decision: Decision) -> None:
    """Write the event of the decision."""
    _write({"type": "decided", "answer": decision["answer"], "why": decision["why"]})


def _write(progress: Progress) -> None:
    try:
        write = get_stream_writer()
    except KeyError:  # the node runs outside a graph
        return
    write(progress)
