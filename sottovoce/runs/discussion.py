"""One running discussion: writes that the saver commits become events for the record, the log and the observer."""

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
from sottovoce.core.errors import PayloadError, RecordError, RetrievalError, SottovoceError
from sottovoce.nodes.state import JSON
from sottovoce.runs.checkpoints import Writes
from sottovoce.runs.events import Asked, Listener, Reading, Speaking
from sottovoce.runs.run import Key, Observer, Run

Graph = CompiledStateGraph[Any, Any, Any, Any]  # Any: of every scheme
Saver = BaseCheckpointSaver[str]
Reply = str | JSON
OUTSIDE = (OSError, PayloadError, RecordError, RetrievalError)
"""Errors that neither scheme nor protocol can cause, like those of hosted models; all others count as wrong answers."""
HumanReply = Callable[[JSON], Reply]
"""A callback that replies to an `interrupt`: in an agent's place (nodes.people), or with an approval (approve)."""


def thread_of(key: Key) -> str:
    """Return the name of a discussion's thread in the checkpoints."""
    question, seed = key
    return f"{seed}/{question}"


class LiveDiscussion:
    """A discussion of a run, from its current state to its decision."""

    def __init__(
        self, run: Run, key: Key, observe: Observer, agents: Sequence[str], person: HumanReply | None = None
    ) -> None:
        """Take `Settings.names()` as `agents`; `person` replies when a human is asked."""
        self.record = run.records[key]
        self.thread = run.saver["threads"] + thread_of(key)
        self._run, self._key, self._observe, self._agents, self._person = run, key, observe, agents, person
        self._reading, self._texts, self._shown = Reading(), dict[str | None, str](), dict[Place, str]()
        self._began, self._before = time.monotonic(), self.record.seconds
        self._task = asyncio.current_task()
        self.broken: BaseException | None = None
        """The error that occurred while a step was recorded: the disk is full, or the observer failed."""

    @property
    def seconds(self) -> float:
        """How long it ran, including the time before it was resumed."""
        return round(self._before + time.monotonic() - self._began, 3)

    async def run(self, graph: Graph, saver: Saver, *, live: bool) -> None:
        """Run the discussion to its decision; `live` streams what agents say.

        Raises:
            Exception: whatever ended it; what was committed before stays.
        """
        config: RunnableConfig = {
            "configurable": {"thread_id": self.thread},
            "callbacks": [Listener(self._record_prompt)],
        }
        has_checkpoints = self.record.decision is not None or await self._catch_up(saver, config)
        start, context = None if has_checkpoints else self.record.question, {"seed": self.record.seed}
        options: Any = {"context": context, "durability": "sync"}  # Any: keywords
        try:
            if self.record.decision is None:
                await self._run_graph(graph, start, config, options, live=live)
            while self.record.decision is None and (asked := (await graph.aget_state(config)).interrupts):
                first = asked[0]  # one at a time: a human who leaves loses no earlier reply
                reply = await self._replied(first.value)
                await self._run_graph(graph, Command(resume={first.id: reply}), config, options, live=live)
        except asyncio.CancelledError:
            if self.broken is None:
                raise
        if self.broken is not None:
            raise self.broken
        await saver.adelete_thread(self.thread)  # the log has all of it

    async def _run_graph(self, graph: Graph, start: Any, config: RunnableConfig, options: Any, *, live: bool) -> None:
        """Run the graph to the decision, or until a human must reply."""
        if not live:
            await graph.ainvoke(start, config, output_keys=[], **options)
            return
        async for chunk, about in graph.astream(start, config, stream_mode="messages", **options):
            self._speaks(chunk, about)

    async def _replied(self, request: JSON) -> Reply:
        """Return the human's reply, from a daemon thread: a stop (Ctrl-C) would wait for asyncio's own threads."""
        assert self._person is not None, "a run that asks humans has a `person` that replies"
        person, reply = self._person, Future[Reply]()
        reply.set_running_or_notify_cancel()

        def ask() -> None:
            try:
                reply.set_result(person(request))
            except Exception as error:
                reply.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        return await asyncio.wrap_future(reply)

    async def _catch_up(self, saver: Saver, config: RunnableConfig) -> bool:
        """Log what was committed before a stop and not logged; return whether checkpoints are there to continue."""
        by_task: dict[str, list[tuple[str, Any]]] = {}  # Any: see Writes
        try:
            checkpoints = [each async for each in saver.alist(config)]
            consistent = not checkpoints or self._agrees(checkpoints[0].checkpoint["channel_values"])
            for checkpoint in reversed(checkpoints):
                for task, channel, value in checkpoint.pending_writes or []:
                    by_task.setdefault(task, []).append((channel, value))
        except (ValueError, TypeError, KeyError, AttributeError):  # not a checkpoint, or a damaged one
            consistent = False
        # After a power cut the log may be ahead of the checkpoints: then the discussion restarts.
        if not consistent or self.record.tasks - by_task.keys():
            await saver.adelete_thread(self.thread)
            self.record, self._before = self._run.restart(self._key), 0.0
            return False
        for task, writes in by_task.items():
            self.committed(task, writes)
        return bool(checkpoints)

    def _agrees(self, state: Mapping[str, Any]) -> bool:  # Any: by channel
        """Return whether checkpoints agree with the log as far as it goes; a disk may have changed them."""
        logged = {message.place: message.text for message in self.record.messages}
        board = map(Message.from_dict, state.get("board", []))
        question = state.get("question", self.record.question["question"])
        return question == self.record.question["question"] and all(
            logged.get(message.place, message.text) == message.text for message in board
        )

    def committed(self, task: str, writes: Writes) -> None:
        """Record and show the events of a task whose writes are in the checkpoints."""
        events = list(self._reading.events(dict(writes)))
        if not events or task in self.record.tasks:
            return
        try:
            self._run.record_step(self._key, task, events, self.seconds)
            for event in events if self.broken is None else ():
                self._show_whole(event)
                self._observe(self.record, event)
        except BaseException as error:
            self.broken = self.broken or error
            if self._task is not None:
                self._task.cancel()

    def fail(self, error: BaseException) -> str:
        """Record why it ended without a decision, and return that line."""
        ours = isinstance(error, SottovoceError) or not isinstance(error, Exception)
        line = (str(error) if ours else failure(error)) or f"{type(error).__name__}: {error}"
        outside = isinstance(error, OUTSIDE) or failure(error) is not None
        self._run.record_failure(self._key, line, self.seconds, outside=outside)
        return line

    def _record_prompt(self, event: Asked) -> None:
        self._run.record_prompt(self._key, event)
        self._observe(self.record, event)

    def _speaks(
        self, chunk: Any, about: dict[str, Any]
    ) -> None:  # Any: a message or a piece of one, as LangGraph streams it
        if "agent" not in about:
            return
        # A chunk extends the text so far; a whole message replaces it.
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
        """Show a message whose step was committed before its last chunk was shown."""
        if isinstance(event, Message) and self._shown.get(event.place, event.text) != event.text:
            self._show(event)
