"""What a discussion tells of itself while it goes on: small dicts in LangGraph's `custom` stream.

Nodes write them, from their own thread or task. Without such a stream nobody listens, and nothing is kept.
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
    """0-based, of a round and of an act."""
    turn: NotRequired[int]
    """0-based, within the round; of an act, as are the next four."""
    agent: NotRequired[str]
    act: NotRequired[str]
    attempt: NotRequired[int]
    asked: NotRequired[str]
    """Why again: see `Message.asked`."""
    answer: NotRequired[str | None]
    """Of a decision."""
    why: NotRequired[str]
    """One line for a reader, of a decision."""


def round_begins(round: int) -> None:
    """Tell it."""
    _tell({"type": "round", "round": round})


def act_begins(call: Call) -> None:
    """Tell who is asked for what."""
    place = call.place
    when: Progress = {"type": "act", "agent": place.agent, "act": place.act, "round": place.round, "turn": place.turn}
    _tell({**when, "attempt": place.attempt, "asked": call.asked})


def is_decided(decision: Decision) -> None:
    """Tell how."""
    _tell({"type": "decided", "answer": decision["answer"], "why": decision["why"]})


def _tell(progress: Progress) -> None:
    try:
        write = get_stream_writer()
    except KeyError:  # a node that runs by itself, outside a graph
        return
    write(progress)
