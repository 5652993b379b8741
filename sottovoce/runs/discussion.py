"""One running discussion: the update of each step becomes events for the record, the log and the observer.

A resumed discussion repeats its recorded steps: their nodes return the recorded updates, until a step is not recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt

from sottovoce.agents.ask import Ask
from sottovoce.agents.hosted import failure
from sottovoce.agents.local import Grew
from sottovoce.channels.message import Message, Place
from sottovoce.core.any_types import JSON, AnyState, Keywords
from sottovoce.core.errors import PayloadError, RecordError, RetrievalError, SottovoceError, StepError
from sottovoce.core.event_loop import in_daemon
from sottovoce.core.text import without_secrets
from sottovoce.nodes.act import running, step_name
from sottovoce.nodes.hearing import Hearing
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Update
from sottovoce.runs.log import AskedLine, Key, Speaking, StepLine, check, encoded
from sottovoce.runs.run import Observer, Run
from sottovoce.runs.run_directory import REPAIR

Graph = CompiledStateGraph[AnyState, AnyState, AnyState, AnyState]
Reply = str | JSON
OUTSIDE = (OSError, PayloadError, RecordError, RetrievalError)
"""Errors that neither scheme nor protocol can cause, like those of hosted models; all others count as wrong answers."""
HumanReply = Callable[[JSON], Reply]
"""A callback that replies to an `interrupt`: in an agent's place (nodes.people), or with an approval (approve)."""


class LiveDiscussion:
    """A discussion of a run, from its first step to its decision; recorded steps are repeated."""

    def __init__(
        self, run: Run, key: Key, observe: Observer, settings: Settings, person: HumanReply | None = None
    ) -> None:
        """Take the settings of the run; `person` replies when a human is asked."""
        self.record = run.records[key]
        self._run, self._key, self._observe, self._settings, self._person = run, key, observe, settings, person
        self._steps, self._shown, self._live = StepReader(), dict[Place, str](), False
        self._began, self._before = time.monotonic(), self.record.seconds
        self.repeats = bool(self.record.steps)
        """True until a step is taken that is not recorded; the state before it is from a file, so it is checked."""
        self._task, self._requests = asyncio.current_task(), Counter[str]()
        self.broken: BaseException | None = None
        """The error that occurred while a step was recorded: the disk is full, or the observer failed."""
        self._is_over = False

    @property
    def seconds(self) -> float:
        """The seconds that it ran, including the time before it was resumed."""
        return round(self._before + time.monotonic() - self._began, 3)

    async def run(self, graph: Graph, *, live: bool) -> None:
        """Run the discussion on a graph of its scheme, to its decision; `live` streams the agents' texts.

        Raises:
            RecordError: the log is damaged: its steps cannot be repeated.
            Exception: the error that ended it; earlier lines of the log stay.
        """
        thread = f"{self._key[1]}/{self._key[0]}"
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        context = self._settings.model_copy(update={"seed": self.record.seed})
        options: Keywords = {"context": context, "output_keys": []}
        options |= {"durability": "exit"} if graph.checkpointer else {}
        self._live = live
        try:
            with running((graph.builder, self)):
                await graph.ainvoke(self.record.question, config, **options)
                while (
                    graph.checkpointer and self.record.decision is None and (waiting := await _waiting(graph, config))
                ):
                    reply = await self._replied(*waiting)
                    await graph.ainvoke(Command(resume={waiting[1].id: reply}), config, **options)
        except asyncio.CancelledError:
            if self.broken is None:
                raise
        except Exception as error:
            if not self.repeats or isinstance(error, SottovoceError):
                raise
            why = f"the steps of question {self._key[0]!r} cannot be repeated ({type(error).__name__}: {error})"
            raise RecordError(f"run {str(self._run.folder)!r} is damaged: {why}; {REPAIR}") from error
        finally:
            self._is_over = True
            if isinstance(graph.checkpointer, InMemorySaver):
                graph.checkpointer.delete_thread(thread)
        if self.broken is not None:
            raise self.broken

    async def _replied(self, step: str, request: Interrupt) -> Reply:
        """Return the recorded reply to a human's request, or ask for one and record it."""
        number, replies = self._requests[step], self.record.replies.get(step, [])
        self._requests[step] += 1
        if number < len(replies):
            return replies[number]
        assert self._person is not None, "a run that asks humans has a `person` that replies"
        reply = await in_daemon(partial(self._person, request.value))
        self._run.add({"line": "replied", "of": self._key, "task": step, "reply": reply})
        return reply

    def repeat(self, step: str) -> Update | None:
        """Return the recorded update of a step; None if it was not taken yet."""
        update = self.record.steps.get(step)
        if update is not None:
            check(encoded(self._steps.line(self._key, step, 0.0, update)))  # also for the place of later events
        return update

    def take(self, step: str, update: Update) -> None:
        """Record a step, and show its events; a step that cannot be saved ends only this discussion."""
        made = self._steps.line(self._key, step, self.seconds, update)
        try:
            line = self._run.add(made)
            assert isinstance(line, StepLine), "its type"
            for event in line.events if self.broken is None else ():
                if isinstance(event, Message) and self._shown.get(event.place, event.text) != event.text:
                    self._show(event)  # whole: its step was committed before its last chunk was shown
                self._observe(self.record, event)
        except StepError:
            raise
        except BaseException as error:
            self.broken = self.broken or error
            if self._task is not None:
                self._task.cancel()

    def fail(self, error: BaseException) -> str:
        """Record why it ended without a decision, and return that line."""
        ours = isinstance(error, SottovoceError) or not isinstance(error, Exception)
        line = without_secrets((str(error) if ours else failure(error)) or f"{type(error).__name__}: {error}")
        outside = isinstance(error, OUTSIDE) or failure(error) is not None
        self._run.fail(self._key, line, self.seconds, outside=outside)
        return line

    def ask(self, place: Place, turns: Sequence[tuple[str, str]], hearings: Sequence[Hearing]) -> None:
        """Record that an agent is asked: the place of its message, its prompt, and the messages of others in it."""
        if self._is_over:  # an act in a thread goes on after the run has stopped
            return
        line = self._run.add({"line": "asked", "of": self._key, **place._asdict(), "turns": turns, "heard": hearings})
        assert isinstance(line, AskedLine), "its type"
        self._observe(self.record, line)

    def grows(self, ask: Ask) -> Grew | None:
        """Return a function that takes the text of a reply so far, from any thread, or None if nobody watches."""
        if not self._live:
            return None
        agents = self._settings.names()
        order = agents.index(ask.place.agent) if ask.place.agent in agents else len(agents)
        loop = asyncio.get_running_loop()

        def show(text: str) -> None:
            if not self._is_over and all(message.place != ask.place for message in self.record.messages):
                self._show(Message(**ask.place._asdict(), text=text, order=order, asked=ask.asked))

        def grew(text: str) -> None:
            loop.call_soon_threadsafe(show, text)

        return grew

    def _show(self, said: Message) -> None:
        self._shown[said.place] = said.text
        self._observe(self.record, Speaking(said))


class StepReader:
    """A reader that turns the updates of a graph's nodes, in order of time, into lines of the log."""

    def __init__(self) -> None:
        """Start at the beginning of a discussion."""
        self._epoch, self._round, self._why = 0, -1, ""

    def line(self, key: Key, step: str, seconds: float, update: Update) -> JSON:
        """Return the line of a step; its events have the messages of the update."""
        rest = {name: value for name, value in update.items() if name != "board"}
        events = self._events(update)
        return {"line": "step", "of": key, "task": step, "seconds": seconds, "events": events, "update": rest}

    def _events(self, update: Update) -> list[JSON]:
        """Return the events of one node's update; a watched act has no events before it is published."""
        self._round = update.get("round", self._round)
        if update.get("epochs"):
            self._epoch = len(update["epochs"])
            return [{"event": "reset", "cut": update["epochs"][-1], "why": self._why}]
        events = list[JSON]()
        if "groups" in update:
            place = {"epoch": self._epoch, "round": self._round + 1}
            events.append({"event": "level", "level": update["level"], **place, "groups": update["groups"]})
        if "settings" in update:
            events.append({"event": "opened", "settings": update["settings"], "notes": list(update["notes"])})
        elif "votes" in update:
            events.append({"event": "counted", "epoch": self._epoch, "round": self._round, "votes": update["votes"]})
        board = map(Message.from_dict, update.get("board", []))
        events += [{"event": "said", **message.to_dict()} for message in board]
        for entry in update.get("interventions", []):
            self._why = entry["why"]
            events.append({"event": "intervened", "intervention": entry})
        if "decision" in update:
            events.append({"event": "decided", "decision": update["decision"]})
        return events


async def _waiting(graph: Graph, config: RunnableConfig) -> tuple[str, Interrupt] | None:
    """Return the first step that waits for a human, and its request; None if there is none."""
    state = await graph.aget_state(config)
    number = (state.metadata or {}).get("step", -1) + 1
    return next(
        ((step_name(number, task.name, task.path), each) for task in state.tasks for each in task.interrupts), None
    )
