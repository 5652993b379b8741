"""The stops of the stepper: checkpoints of a discussion's graph, and the moves between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateUpdate

from sottovoce.channels.message import Message
from sottovoce.cli.human_input import person
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.text import one_line
from sottovoce.nodes.human_input import HUMAN
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import JSON, heard
from sottovoce.runs.discussion import Graph, HumanReply

THREAD: RunnableConfig = {"configurable": {"thread_id": "step"}}


@dataclass(frozen=True)
class Stop:
    """A checkpoint between two steps."""

    number: int
    ran: tuple[str, ...]
    """The nodes that ran in parallel to make it; for an edited stop, those of the stop before."""
    next: tuple[str, ...]
    """The nodes that run in the next step; none at the end."""
    config: RunnableConfig
    before: int | None
    """The number of the stop that it came from; None for the first."""
    edited: str = ""
    """The agent whose message was edited to make it; empty otherwise."""

    def __str__(self) -> str:
        made = f"the message of {self.edited} was edited" if self.edited else f"{_names(self.ran)} ran"
        what_next = f"next: {_names(self.next)}" if self.next else "the discussion is over"
        return f"stop {self.number}: {f'{made}; ' if self.ran else ''}{what_next}"


class Stops:
    """A discussion with all stops so far."""

    def __init__(self, graph: Any, question: Question, answer: HumanReply | None = None) -> None:  # Any: a StateGraph
        """Run to the first stop; `answer` replies for people who take part, by default from the terminal."""
        self._graph: Graph = graph.compile(checkpointer=InMemorySaver())
        self._answer = answer or person(hint="give the replies among the commands")
        self._graph.invoke(question, THREAD, interrupt_before="*", output_keys=[], durability="sync")
        entered = self._graph.get_state(THREAD)
        self.here = Stop(0, (), entered.next, entered.config, None)
        self.all = [self.here]

    @property
    def values(self) -> JSON:
        """The state at this stop."""
        found: JSON = self._graph.get_state(self.here.config).values
        return found

    def next(self) -> None:
        """Run one step; people who take part in it are asked, one after another.

        Raises:
            UsageError: the discussion is over.
            SottovoceError: the step failed, or nobody answers; the stop does not change.
        """
        if not self.here.next:
            raise UsageError("the discussion is over; `back` or `fork N` continues from an earlier stop")
        self._run(None, self.here.config)
        while asked := self._graph.get_state(THREAD).interrupts:
            self._run(Command(resume={asked[0].id: self._answer(asked[0].value)}), THREAD)
        self._stop(self._graph.get_state(THREAD).config, self.here.next)

    def edit(self, agent: str, text: str) -> None:
        """Replace an agent's last message, as if the step before had written the new text.

        Raises:
            UsageError: the agent has not said anything.
        """
        spoken = {message.agent: message for message in heard(self.values)}  # type: ignore[arg-type]  # as a checkpoint has it
        if not spoken:
            raise UsageError("no agent has said anything yet; continue with `next`")
        if agent not in spoken:
            raise UsageError(nearest("agent among those who spoke:", agent, spoken))
        written = {"board": [_written(spoken[agent], text).to_dict()]}
        first, *others = self.here.ran
        updates = [StateUpdate(written, first), *(StateUpdate({}, name) for name in others)]
        config = self._graph.bulk_update_state(self.here.config, [updates])
        self._stop(config, self.here.ran, edited=agent)

    def back(self) -> None:
        """Go back to the stop that this one came from.

        Raises:
            UsageError: it is the first one.
        """
        if self.here.before is None:
            raise UsageError("this is the first stop; there is none before it")
        self.here = self.all[self.here.before]

    def fork(self, number: int) -> None:
        """Go to any stop; the next step starts a branch there.

        Raises:
            UsageError: there is no stop with that number.
        """
        if not 0 <= number < len(self.all):
            raise UsageError(f"fork is {number}; the stops are 0 to {len(self.all) - 1}")
        self.here = self.all[number]

    def _run(self, given: Any, config: RunnableConfig) -> None:  # Any: what LangGraph takes as input
        self._graph.invoke(given, config, interrupt_after="*", output_keys=[], durability="sync")

    def _stop(self, config: RunnableConfig, ran: tuple[str, ...], edited: str = "") -> None:
        following = self._graph.get_state(config).next
        self.here = Stop(len(self.all), ran, following, config, self.here.number, one_line(edited))
        self.all.append(self.here)


def _written(message: Message, text: str) -> Message:
    """Return a message's next attempt; its payload no longer fits the text, so it is read in words."""
    public = None if message.public is None else text
    return replace(message, text=text, public=public, attempt=message.attempt + 1, source=HUMAN)


def _names(nodes: tuple[str, ...]) -> str:
    return ", ".join(map(one_line, nodes))
