"""What happens in a run of a graph, as a stream that record and views can follow."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.graph.state import CompiledStateGraph

from sottovoce.channels.message import Message, Place
from sottovoce.evaluation.runs.record import Count, Level, Prompt, Reset
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import JSON, Decision, Update

Graph = CompiledStateGraph[Any, Any, Any, Any]  # Any: of every scheme
ROLES = {"human": "user", "ai": "assistant"}
"""What LangChain calls otherwise."""
WITHDRAWN = "withdrawn: "
"""Begins the note of a message that a watch held back."""


@dataclass(frozen=True)
class Opened:
    """Question, models and edges were checked; the agents begin."""

    settings: JSON
    """As the run has them: given models bring some of their own."""
    notes: list[str]


@dataclass(frozen=True)
class Asked:
    """An agent was asked to say something."""

    prompt: Prompt


@dataclass(frozen=True)
class Speaking:
    """What an agent has said so far of a message."""

    message: Message
    """As it would be if it ended here."""


@dataclass(frozen=True)
class Decided:
    """The discussion ended."""

    decision: Decision


Event = Opened | Asked | Speaking | Message | Count | Level | Reset | Decided
"""What is on the board, votes that were counted, groups that were made and resets are events as they are recorded.

A message that a watch held back comes too, for the record alone: its last note begins with WITHDRAWN."""


async def events(graph: Graph, question: Question, agents: Sequence[str] = ()) -> AsyncGenerator[Event, None]:
    """What happens in a run of `graph`, in order of time; `agents` are `Settings.names()`."""
    texts: dict[str | None, str] = {}
    now = _Now()
    # Any: LangGraph's types do not tell that several modes come as pairs, from a generator
    listener = _Listener()
    stream = cast(
        "AsyncGenerator[tuple[str, Any]]",
        graph.astream(question, {"callbacks": [listener]}, stream_mode=["updates", "messages"]),
    )
    async with aclosing(stream) as parts:
        async for mode, data in parts:
            while listener.heard:
                yield Asked(listener.heard.popleft())
            if mode == "messages" and "agent" in data[1]:
                chunk, about = data
                # A chunk adds to what came before; a whole message is all of it.
                before = texts.get(chunk.id, "") if isinstance(chunk, AIMessageChunk) else ""
                texts[chunk.id] = before + chunk.text
                place = Place(**{name: about[name] for name in Place._fields})
                order = agents.index(place.agent) if place.agent in agents else len(agents)
                asked = about.get("asked", "")
                yield Speaking(Message(**place._asdict(), text=texts[chunk.id], order=order, asked=asked))
            elif mode == "updates":
                for update in data.values():
                    for event in now.take(update or {}):
                        yield event


class _Listener(BaseCallbackHandler):
    """Notes what chat models are asked; those that a graph was given too."""

    run_inline = True  # else an async run might tell of a call after its reply

    def __init__(self) -> None:
        self.heard = deque[Prompt]()

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **told: Any
    ) -> None:  # Any: as LangChain has it
        """The place is in the metadata of each call of ours; other calls are a model's own affair."""
        about = told.get("metadata") or {}
        if all(name in about for name in Place._fields):
            turns = [(ROLES.get(message.type, message.type), str(message.text)) for message in messages[0]]
            self.heard.append(Prompt(**{name: about[name] for name in Place._fields}, turns=turns))


class _Now:
    """Epoch and round, as far as the stream has come, and why the last message was withdrawn."""

    epoch, round, why = 0, -1, ""

    def take(self, update: Update) -> Iterator[Event]:
        """The events of one node's update; of a watched act nothing before it is published."""
        self.round = update.get("round", self.round)
        if update.get("epochs"):
            self.epoch = len(update["epochs"])
            yield Reset(cut=update["epochs"][-1], why=self.why)
            return
        if "groups" in update:
            yield Level(level=update["level"], epoch=self.epoch, round=self.round + 1, groups=update["groups"])
        if "settings" in update:
            yield Opened(update["settings"], list(update["notes"]))
        elif "votes" in update:
            yield Count(epoch=self.epoch, round=self.round, votes=update["votes"])
        for message in map(Message.from_dict, update.get("board", [])):
            if message.notes and message.notes[-1].startswith(WITHDRAWN):
                self.why = message.notes[-1].removeprefix(WITHDRAWN)
            yield message
        if "decision" in update:
            yield Decided(update["decision"])
