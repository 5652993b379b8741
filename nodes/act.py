"""An act is written once, as a generator that asks and is answered; two drivers make its node.

LangGraph runs sync nodes in threads and async nodes on the loop; one pair serves both, so that
`invoke` works and `abatch` fills the engine's batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda

from sottovoce.agents.ask import Ask, aask, ask
from sottovoce.channels.message import Message, PayloadRef
from sottovoce.nodes.state import Discussion

Update = dict[str, Any]  # Any: an update of the state, by key
Steps = Generator[Ask, AIMessage, Update]
"""Asks, is answered, and ends with an update; messages for the board stand in it as `Message`."""
Act = Callable[[Discussion], Steps]


def node(act: Act, name: str) -> RunnableLambda[Discussion, Update]:
    """The sync and async node of an act."""

    def run(state: Discussion, config: RunnableConfig) -> Update:
        steps = act(state)
        question, update = _step(steps, None)
        while question is not None:
            question, update = _step(steps, ask(question, config))
        return update

    async def arun(state: Discussion, config: RunnableConfig) -> Update:
        steps = act(state)
        # Off the event loop: a step may load a model or read a payload.
        question, update = await asyncio.to_thread(_step, steps, None)
        while question is not None:
            question, update = await asyncio.to_thread(_step, steps, await aask(question, config))
        return update

    return RunnableLambda(run, afunc=arun, name=name)


def _step(steps: Steps, reply: AIMessage | None) -> tuple[Ask | None, Update]:
    """Run an act to its next question, or to its update, as plain JSON."""
    try:
        return steps.send(reply), {}  # type: ignore[arg-type]  # None starts a generator
    except StopIteration as end:
        update: Update = end.value
        if "board" in update:
            update = {**update, "board": [message.to_dict() for message in update["board"]]}
        return None, update


def message_of(question: Ask, reply: AIMessage) -> Message:
    """The board's message for an answered question."""
    ref = reply.additional_kwargs.get("payload")
    usage = reply.usage_metadata
    stats: dict[str, float] = dict(reply.additional_kwargs.get("stats", {}))
    if usage:
        stats |= {"tokens_in": usage["input_tokens"], "tokens_out": usage["output_tokens"]}
    return Message(
        agent=question.agent,
        round=question.round,
        act=question.act,
        attempt=question.attempt,
        text=str(reply.text),  # LangChain's is a kind of str; the board holds plain ones
        payload=PayloadRef.from_dict(ref) if ref else None,
        source="model" if ref else "hosted",
        notes=_notes(reply),
        stats=stats,
    )


def _notes(reply: AIMessage) -> tuple[str, ...]:
    finish = reply.response_metadata.get("finish_reason")
    return ("cut at the token limit",) if finish == "length" else ()
