"""What happens in a run of a graph, as a stream that record and views can follow."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.graph.state import CompiledStateGraph

from sottovoce.channels.message import Message, Place
from sottovoce.evaluation.runs.record import Count, Level, Reset
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import JSON, Decision, Update

Graph = CompiledStateGraph[Any, Any, Any, Any]  # Any: of every scheme
WITHDRAWN = "withdrawn: "
"""Begins the note of a message that a watch held back."""


@dataclass(frozen=True)
class Opened:
    """Question, models and edges were checked; the agents begin."""

    settings: JSON
    """As the run has them: given models bring some of their own."""
    notes: list[str]


@dataclass(frozen=True)
class Speaking:
    """What an agent has said so far of a message."""

    message: Message
    """As it would be if it ended here."""


@dataclass(frozen=True)
class Spoke:
    """A message is finished, and on the board."""

    message: Message


@dataclass(frozen=True)
class Withdrawn(Spoke):
    """A message is on the board for the record alone: a watch held it back, and its last note says why."""


@dataclass(frozen=True)
class Decided:
    """The discussion ended."""

    decision: Decision


Event = Opened | Speaking | Spoke | Count | Level | Reset | Decided
"""Votes that were counted, groups that were made and resets are events as they are recorded."""


class _Now:
    """Epoch and round, as far as the stream has come, and why the last message was withdrawn."""

    epoch, round, why = 0, -1, ""


async def events(graph: Graph, question: Question, agents: Sequence[str] = ()) -> AsyncGenerator[Event, None]:
    """What happens in a run of `graph`, in order of time; `agents` are `Settings.names()`."""
    texts: dict[str | None, str] = {}
    now = _Now()
    # Any: LangGraph's types do not tell that several modes come as pairs, from a generator
    stream = cast("AsyncGenerator[tuple[str, Any]]", graph.astream(question, stream_mode=["updates", "messages"]))
    async with aclosing(stream) as parts:
        async for mode, data in parts:
            if mode == "messages" and "agent" in data[1]:
                chunk, about = data
                texts[chunk.id] = _so_far(texts.get(chunk.id, ""), chunk)
                yield _speaking(about, texts[chunk.id], agents)
            elif mode == "updates":
                for update in data.values():
                    for event in _events(update or {}, now):
                        yield event


def _so_far(before: str, chunk: BaseMessage) -> str:
    """A chunk adds to what came before; a whole message is all of it."""
    return (before if isinstance(chunk, AIMessageChunk) else "") + str(chunk.text)


def _speaking(about: dict[str, Any], text: str, agents: Sequence[str]) -> Speaking:  # Any: a call's metadata
    place = {name: about[name] for name in Place._fields}
    order = agents.index(place["agent"]) if place["agent"] in agents else len(agents)
    return Speaking(Message(**place, text=text, order=order))


def _events(update: Update, now: _Now) -> Iterator[Event]:
    """The events of one node's update; of a watched act nothing before it is published."""
    now.round = update.get("round", now.round)
    if "groups" in update and not update.get("epochs"):
        yield Level(level=update["level"], epoch=now.epoch, round=now.round + 1, groups=update["groups"])
    if "settings" in update:
        yield Opened(update["settings"], list(update["notes"]))
    elif update.get("epochs"):
        now.epoch = len(update["epochs"])
        yield Reset(cut=update["epochs"][-1], why=now.why)
    elif "votes" in update:
        yield Count(epoch=now.epoch, round=now.round, votes=update["votes"])
    held_back = any(entry and "next" in entry for entry in update.get("pending", {}).values())
    for message in map(Message.from_dict, update.get("board", [])):
        if held_back:
            now.why = message.notes[-1].removeprefix(WITHDRAWN)
        yield Withdrawn(message) if held_back else Spoke(message)
    if "decision" in update:
        yield Decided(update["decision"])
