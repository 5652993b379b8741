"""Acts: one agent's step, an async function that awaits its model and returns an update.

An act awaits only models (`await say(...)`). So one function yields both a sync and an async LangGraph node: the
sync one makes each call directly, the async one lets many discussions wait at once, with all other work (files,
templates, loading a model) off the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from sottovoce.agents.ask import Call
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.human_input import by_person
from sottovoce.nodes.progress import act_begins
from sottovoce.nodes.state import Discussion, Update

Act = Callable[[RunContext[Any], Any, str], Awaitable[Update]]  # Any: settings and state of any scheme
"""Takes the run, the state and the agent, and returns an update, in which messages for the board are `Message`."""
Steps = Coroutine[Call, AIMessage, Update]


def node(contexts: Contexts[Any], act: Act, agent: str, name: str) -> RunnableLambda[Discussion, Update]:
    """Return the node, sync and async, in which `agent` does an act."""
    contexts.acting.add(agent)

    def begin(state: Discussion) -> tuple[Steps, Call | None, Update]:  # takes the first step too
        steps: Steps = act(contexts.of(state), state, agent)  # type: ignore[assignment]  # an async function's coroutine
        return steps, *_step(steps, None)

    def run(state: Discussion, config: RunnableConfig) -> Update:
        steps, call, update = begin(state)
        while call is not None:
            act_begins(call)
            call, update = _step(steps, by_person(state, call, name) or call.invoke(config))
        return update

    async def arun(state: Discussion, config: RunnableConfig) -> Update:
        steps, call, update = await asyncio.to_thread(begin, state)
        while call is not None:
            act_begins(call)
            reply = by_person(state, call, name) or await call.ainvoke(config)
            call, update = await asyncio.to_thread(_step, steps, reply)
        return update

    return RunnableLambda(run, afunc=arun, name=name)


def _step(steps: Steps, reply: AIMessage | None) -> tuple[Call | None, Update]:
    """Run an act to its next call, or to its update, as plain JSON."""
    try:
        call = steps.send(reply)  # type: ignore[arg-type]  # None starts a coroutine
    except StopIteration as end:
        return None, plain(end.value)
    if not isinstance(call, Call):
        raise TypeError(f"an act awaited {call!r}; it can only await models (`say`), as it also runs without a loop")
    return call, {}


def plain(update: Update) -> Update:
    """Return an update with its messages as JSON."""
    if "board" not in update:
        return update
    return {**update, "board": [message.to_dict() for message in update["board"]]}
