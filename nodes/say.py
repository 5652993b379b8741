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
    attempts, turns, first = list[Message](), ask.turns, attempt_of(state, ask.agent, ask.act)
    while True:
        attempt = first + len(attempts)
        place = Place(*moment(state), ask.agent, ask.act, attempt)
        seed = run.seed(state, ask.agent, ask.act, attempt)
        heat = run.temperature(ask.agent) if ask.temperature is None else ask.temperature
        call = Call(replace(ask, turns=turns), run.model(ask.agent), place, seed, heat)
        message = message_of(call, await call, run.order(ask.agent))
        complaint = complain(message.whole)
        if not complaint:
            return [*attempts, message]
        if len(attempts) == repairs:
            return [*attempts, at_last(_noted(message, f"cannot be read: {complaint}"))]
        attempts.append(_noted(message, f"asked again: {complaint}"))
        request = Turn("user", run.prompts.render("shared/repair", complaint=complaint, form=form))
        turns = (*turns, Turn("assistant", (Heard(attempts[-1], own=True),)), request)


def message_of(call: Call, reply: AIMessage, order: int) -> Message:
    """The message that a reply is, for the board; `order` is its agent's place in the settings."""
    ref, usage = reply.additional_kwargs.get("payload"), reply.usage_metadata
    stats: dict[str, float] = dict(reply.additional_kwargs.get("stats", {}))
    if usage:
        stats |= {"tokens_in": usage["input_tokens"], "tokens_out": usage["output_tokens"]}
    text = str(reply.text) if ref else str(reply.text).removeprefix(call.ask.begun)  # a hosted model may repeat it
    cut = reply.response_metadata.get("finish_reason") == "length"
    return Message(
        **call.place._asdict(),
        text=text,
        order=order,
        begun=call.ask.begun,
        payload=PayloadRef.from_dict(ref) if ref else None,
        source="model" if ref else "hosted",
        notes=("cut at the token limit",) if cut else (),
        stats=stats,
    )


def unreadable(question: Question) -> Complain:
    """The complaint of a text that holds no answer to the question, and does not say that it is unknown either."""

    def complain(text: str) -> str:
        readable = kinds.read_reply(text, question) is not None or kinds.declines(text)
        return "" if readable else f"it holds no {kinds.named(question.get('kind', 'number'))}"

    return complain


def _noted(message: Message, note: str) -> Message:
    return replace(message, notes=(*message.notes, note))
