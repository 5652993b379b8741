"""Requests to an agent: repeated if the reply cannot be read, then the answer turn; otherwise it abstains."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from sottovoce.agents.ask import Ask, Call
from sottovoce.agents.hooked import WORDS
from sottovoce.channels.message import Message, MessageRef, Place, Turn
from sottovoce.channels.store import PayloadRef
from sottovoce.core.response_format import Form
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.escalate import escalated, hearing
from sottovoce.nodes.human_input import HUMAN
from sottovoce.nodes.probes import donated, with_donors
from sottovoce.nodes.prompt_builder import blocks
from sottovoce.nodes.question import Question
from sottovoce.nodes.redraw import redrawn
from sottovoce.nodes.state import NOTE, Discussion, attempt_of, heard, moment
from sottovoce.nodes.uncertainty import measured
from sottovoce.prompts import kinds
from sottovoce.prompts.structured import encodable

BEGUN = "Answer:"
"""The prefill of an answer turn."""
SHORT = 32
"""The maximum length of an answer turn, in tokens."""
CUT = "cut at the token limit"
"""The note on a reply that ended at the token limit."""
Read = Callable[[str, Question], str | None]
"""Returns the answer in a reply, if any."""
Complain = Callable[[str], str]
"""Returns a short description of what is wrong with a reply; empty if it can be read."""


async def say(
    run: RunContext[Any],  # Any: any scheme
    state: Discussion,
    ask: Ask,
    *,
    complain: Complain = lambda text: "",
    form: str = "",
    repairs: int = 1,
    lacks: Callable[[str], bool] = lambda text: False,
    at_last: Callable[[Message], Message] = lambda message: message,
    afresh: bool = False,
) -> list[Message]:
    """Ask, and ask again for a reply in the `form`, up to `repairs` times, while `complain` finds an error.

    Return all attempts; the board keeps the raw text of each. If the last one still cannot be read and `lacks` the
    answer to the question, the answer turn follows; otherwise `at_last` replaces it, e.g. by a cancelled turn. By
    default it stays as it is, and counts as an abstention. With `afresh`, the failed reply is not shown again: only
    the latest complaint follows the prompt.
    """
    ask = replace(ask, turns=_noted_turns(run, state, ask.turns))
    attempts, turns = list[Message](), ask.turns
    while True:
        message = await _attempt(run, state, replace(ask, turns=turns), "repair" if attempts else "", len(attempts))
        complaint = complain(message.full_text)
        if not complaint:
            return [*attempts, message]
        last = len(attempts) == repairs
        if last and not (run.settings.answer_turn and lacks(message.full_text)):
            return [*attempts, at_last(_noted(message, f"cannot be read: {complaint}"))]
        attempts.append(_noted(message, f"asked {'for the answer' if last else 'again'}: {complaint}"))
        if afresh:
            turns = (*ask.turns[:-1], Turn("user", blocks(ask.turns[-1].parts, [complaint])))
            continue
        turns = (*turns, Turn("assistant", (MessageRef(attempts[-1], own=True),)))
        if last:
            return [*attempts, await _answer_turn(run, state, replace(ask, turns=turns), len(attempts))]
        request = run.prompts_of(ask.agent).render("shared/repair", complaint=complaint, form=form)
        turns = (*turns, Turn("user", request))


async def say_answer(run: RunContext[Any], state: Discussion, ask: Ask, read: Read = kinds.read_reply) -> list[Message]:
    """Return a freely reasoned reply with an answer of the question's kind, and the answer turn if needed.

    If such answers have a form, it constrains the answer turn, and with `--guide on` also the reply's last line.
    Forcing that line by default would add it after readable answers, where models contradict themselves.
    """
    form = form_of(state)
    guided = replace(ask, form=form and replace(form, after=BEGUN, optional=True))
    return await say(run, state, guided, complain=unreadable(state, read), repairs=0, lacks=lambda text: True)


def form_of(question: Question) -> Form | None:
    """Return the form of an answer to the question; None if any text may be an answer."""
    return kinds.KINDS[kinds.kind_of(question)].grammar(question.get("choices") or [])


def answer_pattern(question: Question, otherwise: str) -> str:
    """Return the pattern of an answer to the question or "unknown"; `otherwise` if any text may be an answer."""
    form = form_of(question)
    if form is None:
        return otherwise
    return form.offered.pattern or "|".join(map(_literal, form.offered.choices))


def _literal(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text)


async def _answer_turn(run: RunContext[Any], state: Discussion, ask: Ask, number: int) -> Message:
    """Ask for the answer alone after an unreadable reply: a short request on the same prefix, as text, at T = 0."""
    wanted, form, choices = kinds.KINDS[kinds.kind_of(state)].placeholder, form_of(state), state.get("choices")
    offered = list(form.choices if form else choices or [])
    request = run.prompts_of(ask.agent).render("shared/answer_turn", wanted=wanted, choices=offered)
    short = Ask(
        ask.agent,
        ask.act,
        (*ask.turns, Turn("user", request)),
        form=form,
        begun=BEGUN,
        stop=("\n",),
        max_tokens=SHORT,
        temperature=0.0,
        protocol="nl",
    )
    message = await _attempt(run, state, short, "answer", number)
    complaint = unreadable(state)(message.full_text)
    return _noted(message, f"cannot be read: {complaint}") if complaint else message


async def _attempt(
    run: RunContext[Any], state: Discussion, ask: Ask, asked: Literal["", "repair", "answer"], number: int
) -> Message:
    attempt = attempt_of(state, ask.agent, ask.act) + number
    place = Place(*moment(state), ask.agent, ask.act, attempt)
    heat = run.temperature(ask.agent, words=ask.protocol == WORDS) if ask.temperature is None else ask.temperature
    seed, kept_to = run.seed(state, ask.agent, ask.act, attempt), run.guided(ask.form)
    turns = with_donors(run, state, ask.agent, escalated(run, state, ask.turns))
    warm = redrawn(run, state, place, heat) if ask.temperature is None else None
    heat = heat if warm is None else warm
    call = Call(replace(ask, form=kept_to, turns=turns), run.model(ask.agent), place, seed, heat, asked)
    reply = await call
    message, (notes, numbers) = message_of(call, reply, run.order(ask.agent)), hearing(run, turns)
    if warm is not None and message.source != HUMAN:
        notes, numbers = (*notes, f"said again at temperature {warm:g}"), {**numbers, "temperature": warm}
    told: dict[str, Any] = {"notes": (*message.notes, *notes), "stats": {**message.stats, **numbers}} if numbers else {}
    guided = (kept_to.after or "whole") if kept_to and message.payload else ""
    donors, whose = donated(turns)
    told |= {"donors": donors, "notes": (*told.get("notes", message.notes), *whose)} if donors else {}
    return replace(message, measured=measured(reply, run.store), guided=guided, **told)


def message_of(call: Call, reply: AIMessage, order: int) -> Message:
    """Return a reply as a message for the board; `order` is its agent's place in the settings."""
    ref, usage = reply.additional_kwargs.get("payload"), told_usage(reply)
    stats: dict[str, float] = dict(reply.additional_kwargs.get("stats", {}))
    if usage:
        reused = usage.get("input_token_details", {}).get("cache_read", 0)
        stats |= {"tokens_in": usage["input_tokens"], "tokens_reused": reused, "tokens_out": usage["output_tokens"]}
    text = encodable(str(reply.text))
    text = text if ref else text.removeprefix(call.ask.beginning)  # a hosted model may repeat it
    cut = reply.response_metadata.get("finish_reason") == "length"
    return Message(
        **call.place._asdict(),
        text=text,
        order=order,
        begun=call.ask.beginning,
        asked=call.asked,
        payload=PayloadRef.from_dict(ref) if ref else None,
        source=reply.additional_kwargs.get("source", "model" if ref else "hosted"),
        notes=(*([CUT] if cut else []), *reply.additional_kwargs.get("notes", ())),
        stats=stats,
    )


def told_usage(reply: AIMessage) -> UsageMetadata | None:
    """Return the token usage that a model reported; None without one: some servers omit it, or report only zeros."""
    usage = reply.usage_metadata
    sound = usage and min(usage["input_tokens"], usage["output_tokens"]) >= 0 and usage["input_tokens"] > 0
    return usage if sound else None


def _noted_turns(run: RunContext[Any], state: Discussion, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return a prompt with each of the monitors' notes to all agents once, before the last request."""
    notes = list(dict.fromkeys(message.text for message in heard(state) if message.act == NOTE))
    if not notes:
        return turns
    told = run.prompts.render("shared/note", notes=notes)
    return (*turns[:-1], replace(turns[-1], parts=blocks(told, turns[-1].parts)))


def unreadable(question: Question, read: Read = kinds.read_reply) -> Complain:
    """Return a function that complains of a text that has no answer, and does not call it unknown either."""

    def complain(text: str) -> str:
        readable = read(text, question) is not None or kinds.declines(text)
        return "" if readable else f"it holds no {kinds.named(question.get('kind', 'number'))}"

    return complain


def _noted(message: Message, note: str) -> Message:
    return replace(message, notes=(*message.notes, note))
