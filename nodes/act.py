"""Acts: one agent's step, a function that asks its model (`say`) and returns an update of the state.

An act is written once, without async. In an async graph it runs in a thread of its own, since its other work (files,
templates, loading a model) would block the event loop. There its model calls run on the graph's event loop, which
cancels them with the node.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from inspect import iscoroutinefunction
from threading import Event
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, run_in_executor

from sottovoce.agents.ask import Call
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON, AnyState, JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.contexts import Contexts
from sottovoce.nodes.human_input import by_person
from sottovoce.nodes.option_groups import OF_SAMPLING
from sottovoce.nodes.state import Discussion, Update
from sottovoce.nodes.streams import Progress, report

Act = Callable[[RunContext[AnyState], AnyState, str], Update]
"""Takes the run, the state and the agent, and returns an update, in which messages for the board are `Message`."""


Step = Callable[[RunContext[AnyState], AnyState], Update]
"""A step without an agent: takes the run and the state, and returns an update, as an act does."""


class Node(Runnable[AnyState, AnyState]):
    """A node or a router; only LangGraph's own run of it is traced, where a RunnableLambda would add a second one."""

    def __init__(
        self, run: Callable[[Any], Any], arun: Callable[[Any], Awaitable[Any]] | None = None, *, quick: bool = False
    ) -> None:
        """Create a node; in an async graph `run` runs on the event loop if it is `quick`, else `arun`, or a thread."""
        self._run, self._quick = run, quick
        self._arun = arun or (lambda state: run_in_executor(None, run, state))
        self.name = getattr(run, "__name__", None)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return the update."""
        return self._run(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return the update."""
        return self._run(input) if self._quick else await self._arun(input)


class LoopCalls:
    """The model calls of one act, made from its thread on the event loop of its graph."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._future, self._cancelled = loop, Future[AIMessage](), Event()

    def make(self, call: Call, config: RunnableConfig) -> AIMessage:
        """Make a call, and wait for the reply in this thread."""
        if self._cancelled.is_set():
            raise CancelledError
        self._future = asyncio.run_coroutine_threadsafe(call.ainvoke(config), self._loop)
        if self._cancelled.is_set():  # after the first look: `cancel` may not have seen this call
            self._future.cancel()
        return self._future.result()

    def cancel(self) -> None:
        """Cancel the current call, and refuse further ones."""
        self._cancelled.set()
        self._future.cancel()


_LOOP_CALLS: ContextVar[LoopCalls | None] = ContextVar("loop_calls", default=None)


MOST_THREADS = 1 << 16
_THREADS = WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor]()  # a forked process has other loops


def node(contexts: Contexts[Any], act: Act, agent: str, name: str) -> Node:
    """Return the node, sync and async, in which `agent` performs an act.

    Raises:
        UsageError: the act is an async function.
    """
    if iscoroutinefunction(act):
        raise UsageError(f"the act of node {name!r} is async; write it with def, and say(...) without await")
    contexts.acting.add(agent)

    def run(state: Discussion) -> Update:
        try:
            return plain(act(contexts.of(state), state, agent))
        except StopIteration as error:  # a future cannot carry it, so an async graph would wait forever
            raise RuntimeError(f"the act of node {name!r} raised StopIteration") from error

    async def arun(state: Discussion) -> Update:
        loop, context = asyncio.get_running_loop(), copy_context()
        calls = LoopCalls(loop)
        context.run(_LOOP_CALLS.set, calls)
        try:
            return await loop.run_in_executor(_threads(loop), context.run, run, state)
        finally:
            calls.cancel()

    return Node(run, arun)


def _threads(loop: asyncio.AbstractEventLoop) -> ThreadPoolExecutor:
    """Return the threads of a loop's acts: as many as run at the same time, since each waits for its model."""
    if loop not in _THREADS:
        _THREADS[loop] = ThreadPoolExecutor(MOST_THREADS, "act")
    return _THREADS[loop]


def reply_to(call: Call, state: Discussion) -> AIMessage:
    """Return the reply of the person who plays the agent, else of its model; streams report the call."""
    config, calls = ensure_config(), _LOOP_CALLS.get()
    place = call.place
    where: Progress = {"agent": place.agent, "act": place.act, "round": place.round, "turn": place.turn, "type": "act"}
    report({**where, "attempt": place.attempt, "asked": call.asked})
    if reply := by_person(state, call, str(config.get("metadata", {}).get("langgraph_node", ""))):
        return reply
    return call.invoke(config) if calls is None else calls.make(call, config)


def plain(update: Update) -> Update:
    """Return an update with its messages as JSON."""
    if "board" not in update:
        return update
    board = [message.to_dict() if isinstance(message, Message) else message for message in update["board"]]
    return {**update, "board": board}


SPOKEN_BY = {
    *OF_SAMPLING,
    *"protocol options temperature max_tokens stop seed thinking thinking_markers brief share_thoughts exact".split(),
}
"""The fields of a local model that its replies depend on, besides its weights."""


def key_of(contexts: Contexts[Any], agent: str, name: str) -> Callable[[Discussion], str]:
    """Return a function from the state to the key of `agent`'s act in the node `name`: 64 hexadecimal digits.

    It loads a local model, since the key depends on its weights. If a person may be asked, the key is new each time.
    """

    def key(state: Discussion) -> str:
        run = contexts.of(state)
        if run.settings.asks_people or any(each["what"] == "human" for each in state.get("interventions", [])):
            return secrets.token_hex(32)
        told = [agent, name, state, identity(run.model(agent)), run.prompts_of(agent).digest(), run.wording(agent)]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=_plain).encode()).hexdigest()

    return key


def identity(model: BaseChatModel) -> JSON:
    """Return all that a model's replies depend on, and the folder of the payloads of cached ones."""
    if not isinstance(model, HookedChatModel):
        return {"hosted": model._get_llm_string()}  # the key of LangChain's own cache of replies
    loaded = model.loaded
    return {
        **model.model_dump(mode="json", include=SPOKEN_BY),
        "weights": [loaded.weights_key, loaded.format],
        "hearers": [hearer.loaded.table.key for hearer in model.hearers],
        "store": model.payloads.place,
    }


def _plain(value: object) -> JSONValue:
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a state has {type(value).__name__}; expected JSON and messages")
