"""What happens in a run of a graph, as a stream that record and views can follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessageChunk
from langgraph.graph.state import CompiledStateGraph

from sottovoce.channels.message import Message
from sottovoce.nodes.state import Decision, Question, Vote

Graph = CompiledStateGraph[Any, Any, Any, Any]  # Any: of every scheme


@dataclass(frozen=True)
class Opened:
    """Question, models and edges were checked; the agents begin."""

    notes: tuple[str, ...]
    settings: dict[str, Any]  # Any: plain JSON
    """As the run has them: given models bring some of their own."""
    groups: list[list[str]]
    """Who discusses with whom, all agents in order."""


@dataclass(frozen=True)
class RoundBegan:
    """A round, 0-based, begins."""

    round: int


@dataclass(frozen=True)
class Speaking:
    """What an agent has said so far of a message."""

    node: str
    message: Message
    """As it would be if it ended here."""


@dataclass(frozen=True)
class Spoke:
    """A message is finished, and on the board."""

    node: str
    message: Message


@dataclass(frozen=True)
class Counted:
    """The votes of a round were counted."""

    round: int
    votes: list[Vote]


@dataclass(frozen=True)
class Regrouped:
    """Groups sent representatives, who discuss in new groups from here on (CMD)."""

    level: int
    """1 is the first above that of all agents."""
    round: int
    """The first on this level."""
    groups: list[list[str]]


@dataclass(frozen=True)
class Decided:
    """The discussion ended."""

    decision: Decision


Event = Opened | RoundBegan | Speaking | Spoke | Counted | Regrouped | Decided


async def events(graph: Graph, question: Question) -> AsyncGenerator[Event, None]:
    """What happens in a run of `graph`, in order of time."""
    texts: dict[str | None, str] = {}
    round = -1
    # Any: LangGraph's types do not tell that several modes come as pairs, from a generator
    stream = cast("AsyncGenerator[tuple[str, Any]]", graph.astream(question, stream_mode=["updates", "messages"]))
    async with aclosing(stream) as parts:
        async for mode, data in parts:
            if mode == "messages":
                chunk, about = data
                # A chunk adds to what came before; a whole message is all of it.
                before = texts.get(chunk.id, "") if isinstance(chunk, AIMessageChunk) else ""
                texts[chunk.id] = before + chunk.text
                if "agent" in about:
                    yield _speaking(about, texts[chunk.id])
            else:
                for node, update in data.items():
                    round = (update or {}).get("round", round)
                    for event in _events(node, update or {}, round):
                        yield event


def _speaking(about: dict[str, Any], text: str) -> Speaking:  # Any: a call's metadata
    node, agent, act = about["langgraph_node"], about["agent"], about["act"]
    # A debater sums up the round before its own (nodes.summarise files it there).
    back = act == "summarise" and node == agent
    return Speaking(node, Message(agent, about["round"] - back, act, text, attempt=about["attempt"]))


def _events(node: str, update: dict[str, Any], round: int) -> Iterator[Event]:  # Any: an update of the state
    if "settings" in update:
        yield Opened(tuple(update["notes"]), update["settings"], update["groups"])
    elif "round" in update:
        yield RoundBegan(round)
    elif "votes" in update:
        yield Counted(round, update["votes"])
    elif "groups" in update:
        yield Regrouped(update["level"], round + 1, update["groups"])
    for message in update.get("board", []):
        yield Spoke(node, Message.from_dict(message))
    if "decision" in update:
        yield Decided(update["decision"])
