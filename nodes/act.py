"""Acts: one agent's step, a coroutine that asks the agent (`say`) and returns an update of the state.

Acts run on the graph's event loop. A sync call of the graph runs the same coroutines on the loop of
`core.event_loop`. What blocks (a search, a sandbox) belongs into a thread, and so does a plain function, which other
packages may give as an act.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor

from sottovoce.channels.message import Message
from sottovoce.core.any_types import AnyState, JSONValue
from sottovoce.core.event_loop import wait
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.state import Discussion, Update

Act = Callable[[RunContext[AnyState], AnyState, Agent], Awaitable[Update] | Update]
"""Takes the run, the state and the agent, and returns an update, in which messages for the board are `Message`."""
Step = Callable[[RunContext[AnyState], AnyState], Update]
"""A step without an agent: takes the run and the state, and returns an update, as an act does."""


class Node(Runnable[AnyState, AnyState]):
    """A node or a router; only LangGraph's own run of it is traced, where a RunnableLambda would add a second one."""

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


def node(contexts: Contexts[Any], act: Act, agent: str, name: str) -> Node:
    """Return the node in which `agent` performs an act."""
    contexts.acting.add(agent)

    async def run(state: Discussion) -> Update:
        context = await contexts.ready(state)
        return plain(await performed(act, context, state, context.agent(agent), name))

    return Node(run)


async def performed(act: Act, run: RunContext[Any], state: Discussion, agent: Agent, name: str) -> Update:
    """Return the update of an act; one that is a plain function runs in a thread."""

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


def key_of(contexts: Contexts[Any], agent: str, name: str) -> Callable[[Discussion], str]:
    """Return a function from the state to the key of `agent`'s act in the node `name`: 64 hexadecimal digits.

    It loads a local model, since the key depends on its weights. If a person may be asked, or the model has no key of
    its own, the key is new each time.
    """

    def key(state: Discussion) -> str:
        run = contexts.of(state)
        one, people = run.agent(agent), [each for each in state.get("interventions", []) if each["what"] == "human"]
        own = type(one.model)._identifying_params is not BaseChatModel._identifying_params
        named = one.model.cache is not False and (own or one.model.is_lc_serializable())
        if run.settings.asks_people or people or not named:
            return secrets.token_hex(32)
        # LangChain's own key of replies
        told = [agent, name, state, one.model._get_llm_string(), one.prompts.digest(), one.wording]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=_plain).encode()).hexdigest()

    return key


def _plain(value: object) -> JSONValue:
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a state has {type(value).__name__}; expected JSON and messages")
