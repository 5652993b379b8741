"""Acts: one agent's step, a coroutine that asks the agent (`say`) and returns an update of the state.

Acts run on the graph's event loop. A sync call of the graph runs the same coroutines on the loop of `core.event_loop`.
Blocking work (a search, a sandbox) runs in a thread. Other packages may use a plain function as an act; it also runs in
a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.types import Command

from sottovoce.agents.ask import Ask
from sottovoce.agents.local import Grew
from sottovoce.channels.message import Message, Place
from sottovoce.core.any_types import AnyState, Untyped
from sottovoce.core.event_loop import wait
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.hearing import Hearing
from sottovoce.nodes.state import Discussion, Update

Act = Callable[[RunContext[AnyState], AnyState, Agent], Awaitable[Update] | Update]
"""Takes the run, the state and the agent, and returns an update, in which messages for the board are `Message`."""
Step = Callable[[RunContext[AnyState], AnyState], Update]
"""A step without an agent: takes the run and the state, and returns an update, as an act does."""
GOTO = "__goto__"
"""The key of a recorded update with the nodes that run next, if the node returned a `Command`."""


class Steps(Protocol):
    """The recorded steps and prompts of one discussion of a run."""

    repeats: bool
    """True until a step is taken that is not recorded; the state before it is from a file, so it is checked."""

    def repeat(self, step: str) -> Update | None:
        """Return the recorded update of a step, or None if it was not taken yet."""

    def take(self, step: str, update: Update) -> None:
        """Record a step."""

    def ask(self, place: Place, turns: Sequence[tuple[str, str]], hearings: Sequence[Hearing]) -> None:
        """Record that an agent is asked: the place of its message, its prompt, and the messages of others in it."""

    def grows(self, ask: Ask) -> Grew | None:
        """Return a function that takes the text of a reply so far, from any thread, or None if nobody watches."""


RUNNING: ContextVar[tuple[object, Steps] | None] = ContextVar("running", default=None)
"""The discussion of a saved run that is under way here: its graph and its steps.

It is None in a graph that an agent calls: the steps of that graph are not the run's.
"""


@contextmanager
def running(discussion: tuple[object, Steps] | None) -> Iterator[None]:
    """Set `RUNNING` within the block."""
    before = RUNNING.set(discussion)
    try:
        yield
    finally:
        RUNNING.reset(before)


class Node(Runnable[AnyState, AnyState]):
    """A node or a router; a trace shows it once (a RunnableLambda would add a second entry)."""

    def __init__(self, run: Callable[[Any], Any], *, quick: bool = False) -> None:
        """Create a node of a function or a coroutine; in an async graph, a `quick` function runs on the event loop."""
        self._run, self._quick, self._is_async = run, quick, iscoroutinefunction(run)
        self.name = getattr(run, "__name__", None)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return the update."""
        return wait(self._run(input)) if self._is_async else self._run(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return the update."""
        if self._is_async:
            return await self._run(input)
        return self._run(input) if self._quick else await run_in_executor(None, self._run, input)


class RecordedNode(Runnable[AnyState, AnyState]):
    """A node of a discussion; in a saved run, it returns the recorded update of its step, or has its step recorded."""

    def __init__(self, node: Runnable[Any, Any], name: str, graph: object, check: Callable[..., None]) -> None:
        """Wrap a node of `graph`; `check` refuses an invalid state."""
        self.node, self._graph, self._check = node, graph, check
        self.name = name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return the update; runs are async, so it is not a run's."""
        with running(None):
            return self.node.invoke(input, config, **options)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return the update."""
        graph, steps = RUNNING.get() or (None, None)
        if steps is None or graph is not self._graph:
            with running(None):
                return await self.node.ainvoke(input, config, **options)
        assert config is not None, "LangGraph passes one"
        about = config["metadata"]
        step = step_name(about["langgraph_step"], self.get_name(), about["langgraph_path"])
        update = steps.repeat(step)
        if update is None:
            if steps.repeats:
                self._check(input, started=True)
            steps.repeats = False
            update = _recordable(self.get_name(), await self.node.ainvoke(input, config, **options) or {})
            steps.take(step, update)
        if GOTO not in update:
            return update
        return Command(update={key: update[key] for key in update if key != GOTO}, goto=update[GOTO])


def step_name(number: int, node: str, path: Sequence[Untyped]) -> str:
    """Return the name of a step: the number of the superstep, the node, and the index of its `Send`, if any."""
    return f"{number}/{node}" if path[1] == node else f"{number}/{node}/{path[1]}"


def _recordable(node: str, returned: AnyState) -> Update:
    """Return a node's update in the form of the log."""
    goto: Any = ()
    if isinstance(returned, Command):
        goto = [*returned.goto] if isinstance(returned.goto, (list, tuple)) else [returned.goto]
        returned = {**(returned.update or {}), GOTO: goto}
    if not isinstance(returned, dict) or not all(isinstance(name, str) for name in goto):
        found = f"{type(returned).__name__} with a Send" if goto else type(returned).__name__
        raise TypeError(f"node {node!r} returned a {found}; expected an update, a dict, or a Command to nodes by name")
    return returned


def node(contexts: Contexts[Any], act: Act, agent: str, name: str) -> Node:
    """Return a node that performs an act of `agent`."""
    contexts.acting.add(agent)

    async def run(state: Discussion) -> Update:
        context = await contexts.ready(state)
        return plain(await performed(act, context, state, context.agent(agent), name))

    return Node(run)


async def performed(act: Act, run: RunContext[Any], state: Discussion, agent: Agent, name: str) -> Update:
    """Return the update of an act. A plain function runs in a thread."""

    def in_thread() -> Awaitable[Update] | Update:
        try:
            return act(run, state, agent)
        except StopIteration as error:  # a future cannot carry it, so the graph would wait forever
            raise RuntimeError(f"the act of node {name!r} raised StopIteration") from error

    update = act(run, state, agent) if iscoroutinefunction(act) else await asyncio.to_thread(in_thread)
    return await update if isawaitable(update) else update


def plain(update: Update) -> Update:
    """Return an update with its messages as JSON."""
    if "board" not in update:
        return update
    board = [message.to_dict() if isinstance(message, Message) else message for message in update["board"]]
    return {**update, "board": board}
