"""An agent says something, again where it must be in a form and cannot be read, and then abstains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage

from sottovoce.agents.ask import Ask, Call
from sottovoce.channels.message import Heard, Message, Place, Turn
from sottovoce.channels.store import PayloadRef
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Discussion, attempt_of, moment
from sottovoce.prompts import kinds

Complain = Callable[[str], str]
"""What is wrong with a reply, in a few words; empty where it can be read."""


async def say(
    run: RunContext[Any],  # Any: of every scheme
    state: Discussion,
    ask: Ask,
    *,
    complain: Complain = lambda text: "",
    form: str = "",
    repairs: int = 1,
    at_last: Callable[[Message], Message] = lambda message: message,
) -> list[Message]:
    """Ask, and as long as there is something to complain of and repairs are left, ask to say it again in the `form`.

    Returns the attempts; the raw text of all stays on the board. `at_last` makes of the last one that still cannot
    be read what is published in its place, e.g. a cancelled turn; as it is, it abstains.
    """
    first = attempt_of(state, ask.agent, ask.act)
    attempts = [await asked(run, state, ask, first)]
    turns = ask.turns
    while (complaint := complain(attempts[-1].whole)) and len(attempts) <= repairs:
        attempts[-1] = _noted(attempts[-1], f"asked again: {complaint}")
        request = Turn("user", run.prompts.render("shared/repair", complaint=complaint, form=form))
        turns = (*turns, Turn("assistant", (Heard(attempts[-1], own=True),)), request)
        attempts.append(await asked(run, state, replace(ask, turns=turns), first + len(attempts)))
    if complaint:
        attempts[-1] = at_last(_noted(attempts[-1], f"cannot be read: {complaint}"))
    return attempts


async def asked(run: RunContext[Any], state: Discussion, ask: Ask, attempt: int = 0) -> Message:  # Any: see say
    """Ask once; the message that the reply is."""
    place = Place(*moment(state), ask.agent, ask.act, attempt)
    seed = run.seed(state, ask.agent, ask.act, attempt)
    temperature = run.temperature(ask.agent) if ask.temperature is None else ask.temperature
    call = Call(ask, run.model(ask.agent), place, seed, temperature)
    return _message(call, await call, run.order(ask.agent))


def unreadable(question: Question) -> Complain:
    """The complaint of a text that holds no answer to the question, and does not say that it is unknown either."""
    kind, choices = question.get("kind", "number"), question.get("choices")

    def complain(text: str) -> str:
        readable = kinds.read(text, kind, choices) is not None or kinds.declines(text)
        return "" if readable else f"it holds no {kinds.named(kind)}"

    return complain


def _message(call: Call, reply: AIMessage, order: int) -> Message:
    ref, usage = reply.additional_kwargs.get("payload"), reply.usage_metadata
    stats: dict[str, float] = dict(reply.additional_kwargs.get("stats", {}))
    if usage:
        stats |= {"tokens_in": usage["input_tokens"], "tokens_out": usage["output_tokens"]}
    cut = reply.response_metadata.get("finish_reason") == "length"
    return Message(
        **call.place._asdict(),
        text=str(reply.text).removeprefix(call.ask.begun),  # a hosted model may repeat the beginning
        order=order,
        begun=call.ask.begun,
        payload=PayloadRef.from_dict(ref) if ref else None,
        source="model" if ref else "hosted",
        notes=("cut at the token limit",) if cut else (),
        stats=stats,
    )


def _noted(message: Message, note: str) -> Message:
    return replace(message, notes=(*message.notes, note))
