"""One discussion under way: what the saver commits of it becomes events, for record, log and whoever looks on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from sottovoce.agents.hosted import failure
from sottovoce.channels.message import Message, Place
from sottovoce.errors import PayloadError, RecordError, RetrievalError, SottovoceError
from sottovoce.evaluation.runs.events import Asked, Listener, Reading, Speaking
from sottovoce.evaluation.runs.run import Key, Observer, Run
from sottovoce.evaluation.runs.saver import Writes
from sottovoce.nodes.state import JSON

Graph = CompiledStateGraph[Any, Any, Any, Any]  # Any: of every scheme
Saver = BaseCheckpointSaver[str]
Reply = str | JSON
OUTSIDE = (OSError, PayloadError, RecordError, RetrievalError)
"""Errors that neither scheme nor protocol can cause, as those of hosted models; all others count as wrong answers."""
Person = Callable[[JSON], Reply]
"""Answers what an `interrupt` holds: in an agent's place (nodes.people), or whether something is to be (approve)."""


def thread_of(key: Key) -> str:
    """The name of a discussion's thread in checkpoints."""
    question, seed = key
    return f"{seed}/{question}"


class Going:
    """A discussion of a run, from where it stands to its decision."""

    def __init__(
        self, run: Run, key: Key, observe: Observer, agents: Sequence[str], person: Person | None = None
    ) -> None:
        """`agents` are `Settings.names()`; `person` answers where a person is asked."""
        self.record = run.records[key]
        self.thread = run.saver["threads"] + thread_of(key)
        self._run, self._key, self._observe, self._agents, self._person = run, key, observe, agents, person
        self._reading, self._texts, self._shown = Reading(), dict[str | None, str](), dict[Place, str]()
        self._began, self._before = time.monotonic(), self.record.seconds
        self._task = asyncio.current_task()
        self.broken: BaseException | None = None
        """What went wrong while a step was recorded: the disk is full, or who looks on broke."""

    @property
    def seconds(self) -> float:
        """How long it ran, earlier sessions included."""
        return round(self._before + time.monotonic() - self._began, 3)

    async def hold(self, graph: Graph, saver: Saver, *, live: bool) -> None:
        """Go on to the decision; `live` tells what agents say while it grows.

        Raises:
            Exception: whatever ends it; what was committed before stays.
        """
        config: RunnableConfig = {"configurable": {"thread_id": self.thread}, "callbacks": [Listener(self._asked)]}
        begun = self.record.decision is not None or await self._catch_up(saver, config)
        given, context = None if begun else self.record.question, {"seed": self.record.seed}
        told: Any = {"context": context, "durability": "sync"}  # Any: keywords
        try:
            if self.record.decision is None:
                await self._go(graph, given, config, told, live=live)
            while self.record.decision is None and (asked := (await graph.aget_state(config)).interrupts):
                first = asked[0]  # one at a time: whoever goes away loses no reply that was given before
                reply = await self._replied(first.value)
                await self._go(graph, Command(resume={first.id: reply}), config, told, live=live)
        except asyncio.CancelledError:
            if self.broken is None:
                raise
        if self.broken is not None:
            raise self.broken
        await saver.adelete_thread(self.thread)  # the log has all of it

    async def _go(self, graph: Graph, given: Any, config: RunnableConfig, told: Any, *, live: bool) -> None:
        """On to the decision, or to a seat whose person is asked."""
        if not live:
            await graph.ainvoke(given, config, output_keys=[], **told)
            return
        async for chunk, about in graph.astream(given, config, stream_mode="messages", **told):
            self._speaks(chunk, about)

    async def _replied(self, asked: JSON) -> Reply:
        """What the person says, asked in a thread of its own: a stop (Ctrl-C) waits for asyncio's threads to end."""
        assert self._person is not None, "a run in which people are asked has somebody who answers"
        person, reply = self._person, Future[Reply]()
        reply.set_running_or_notify_cancel()

        def ask() -> None:
            try:
                reply.set_result(person(asked))
            except Exception as error:
                reply.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        return await asyncio.wrap_future(reply)

    async def _catch_up(self, saver: Saver, config: RunnableConfig) -> bool:
        """Take what was committed before a stop, and log what had not been logged; tells whether anything was."""
        by_task: dict[str, list[tuple[str, Any]]] = {}  # Any: see Writes
        try:
            kept = [each async for each in saver.alist(config)]
            sound = not kept or self._agrees(kept[0].checkpoint["channel_values"])
            for checkpoint in reversed(kept):
                for task, channel, value in checkpoint.pending_writes or []:
                    by_task.setdefault(task, []).append((channel, value))
        except (ValueError, TypeError, KeyError, AttributeError):  # bytes that are no checkpoint, or none any more
            sound = False
        # The log may be ahead, after a power cut: what is not in the checkpoints cannot go on.
        if not sound or self.record.tasks - by_task.keys():
            await saver.adelete_thread(self.thread)
            self.record, self._before = self._run.anew(self._key), 0.0
            return False
        for task, writes in by_task.items():
            self.committed(task, writes)
        return bool(kept)

    def _agrees(self, state: Mapping[str, Any]) -> bool:  # Any: by channel
        """Whether checkpoints say what the log says, as far as that goes; a disk may have changed them."""
        logged = {message.place: message.text for message in self.record.messages}
        board = map(Message.from_dict, state.get("board", []))
        question = state.get("question", self.record.question["question"])
        return question == self.record.question["question"] and all(
            logged.get(message.place, message.text) == message.text for message in board
        )

    def committed(self, task: str, writes: Writes) -> None:
        """A task's writes are in the checkpoints."""
        events = list(self._reading.events(dict(writes)))
        if not events or task in self.record.tasks:
            return
        try:
            self._run.step(self._key, task, events, self.seconds)
            for event in events if self.broken is None else ():
                self._show_whole(event)
                self._observe(self.record, event)
        except BaseException as error:
            self.broken = self.broken or error
            if self._task is not None:
                self._task.cancel()

    def fail(self, error: BaseException) -> str:
        """Note why it ended without a decision; returns that line."""
        own = str(error) if isinstance(error, SottovoceError) or not isinstance(error, Exception) else failure(error)
        line = own or f"{type(error).__name__}: {error}"
        outside = isinstance(error, OUTSIDE) or failure(error) is not None
        self._run.failed(self._key, line, self.seconds, outside=outside)
        return line

    def _asked(self, event: Asked) -> None:
        self._run.asked(self._key, event)
        self._observe(self.record, event)

    def _speaks(
        self, chunk: Any, about: dict[str, Any]
    ) -> None:  # Any: a message or a piece of one, as LangGraph streams it
        if "agent" not in about:
            return
        # A chunk adds to what came before; a whole message is all of it.
        before = self._texts.get(chunk.id, "") if isinstance(chunk, AIMessageChunk) else ""
        self._texts[chunk.id] = before + chunk.text
        place = Place(**{name: about[name] for name in Place._fields})
        order = self._agents.index(place.agent) if place.agent in self._agents else len(self._agents)
        said = Message(**place._asdict(), text=self._texts[chunk.id], order=order, asked=about.get("asked", ""))
        if all(message.place != place for message in self.record.messages):
            self._show(said)

    def _show(self, said: Message) -> None:
        self._shown[said.place] = said.text
        self._observe(self.record, Speaking(said))

    def _show_whole(self, event: object) -> None:
        """A step may be committed before the last of its pieces was shown."""
        if isinstance(event, Message) and self._shown.get(event.place, event.text) != event.text:
            self._show(event)
