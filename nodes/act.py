"""An act is what one agent does in one step: an async function that awaits its model and returns an update.

It awaits models alone (`await say(...)`). So the node that runs it can be one of LangGraph's pairs, from one
function: its sync half makes each call where it stands, its async half lets many discussions wait at once,
with all other work (files, templates, loading a model) off the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from sottovoce.agents.ask import Call
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.people import by_person
from sottovoce.nodes.progress import act_begins
from sottovoce.nodes.state import Discussion, Update

Act = Callable[[RunContext[Any], Any, str], Awaitable[Update]]  # Any: the settings and the state of every scheme
"""The run, the state and the agent -> an update; messages for the board stand in it as `Message`."""
Steps = Coroutine[Call, AIMessage, Update]


def node(contexts: Contexts[Any], act: Act, agent: str, name: str) -> RunnableLambda[Discussion, Update]:
    """The sync and async node in which `agent` does an act."""
    contexts.acting.add(agent)

    def begin(state: Discussion) -> tuple[Steps, Call | None, Update]:  # with its first step: none is left unbegun
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
        raise TypeError(f"an act awaited {call!r}; it can await models alone (`say`), as it also runs without a loop")
    return call, {}


def plain(update: Update) -> Update:
    """An update whose messages are JSON."""
    if "board" not in update:
        return update
    return {**update, "board": [message.to_dict() for message in update["board"]]}
