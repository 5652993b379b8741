"""Requests to an agent: repeated if the reply is not in its form, then the answer turn; otherwise it abstains."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sottovoce.agents.ask import CUT, HUMAN, WORDS, Ask
from sottovoce.channels.message import Message, Place, Turn
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import ContextOverflow
from sottovoce.core.event_loop import off_loop
from sottovoce.core.response_format import Form
from sottovoce.nodes.hearing import (
    Hearing,
    carries_all,
    escalated,
    heard_in,
    in_words_alone,
    notes_on,
    with_thoughts,
)
from sottovoce.nodes.probes import donated, with_donors
from sottovoce.nodes.prompt_builder import blocks, own_turn
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import NOTE, Discussion, Update, attempt_of, current_messages, moment
from sottovoce.nodes.watch import redrawn
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds.offered import figure_of, phrases_of

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

ANSWER_PREFILL = "Answer:"
ANSWER_TOKENS = 32
Validate = Callable[[Message], str]
"""Returns a short description of what is wrong with a reply, or an empty text if it can be read."""


def passes(message: Message) -> str:
    """Find nothing wrong with a reply."""
    return ""


async def say(
    run: RunContext[AnyState],
    state: Discussion,
    agent: Agent,
    ask: Ask,
    *,
    validate: Validate = passes,
    requested: str = "",
    retries: int = 1,
    lacks_answer: Validate = passes,
    show_failed: bool = True,
) -> list[Message]:
    """Ask, and ask again while `validate` finds an error, up to `retries` times; return all attempts.

    A repeated request describes the error and the `requested` form; with `show_failed` it follows the failed reply,
    otherwise the prompt. A reply that was cut is repeated once, with twice the length. If the last reply
    `lacks_answer`, the answer turn follows; otherwise it stays as it is, and counts as an abstention. The board keeps
    the raw text of each attempt.
    """
    if notes := list(dict.fromkeys(message.text for message in current_messages(state) if message.act == NOTE)):
        shown = run.prompts.render("shared/note", notes=notes)  # the monitors' to all, before the last request
        last = replace(ask.turns[-1], parts=blocks(shown, ask.turns[-1].parts))
        ask = replace(ask, turns=(*ask.turns[:-1], last))
    attempts, turns, cut = list[Message](), ask.turns, False
    usual = ask.max_tokens or getattr(agent.model, "max_tokens", None) or run.settings.max_tokens
    longest = usual
    while True:
        try:
            reason: Literal["", "repair"] = "repair" if attempts else ""
            message = await _attempt(run, state, agent, replace(ask, turns=turns), reason, len(attempts))
        except ContextOverflow:
            if longest == usual:
                raise
            longest, ask = usual, replace(ask, max_tokens=usual)  # the model has no room for twice the length
            continue
        error = unread(message, validate(message), longest)
        is_short = message.cut or message.ended == "limit"  # a format may be complete, and its texts cut
        was_cut, cut = cut, cut or is_short
        repeats = bool(error) and len(attempts) < retries and not (was_cut and is_short)
        if repeats and cut and not was_cut:
            longest, ask = 2 * usual, replace(ask, max_tokens=2 * usual)
        missing = "" if repeats else unread(message, lacks_answer(message), longest)
        concludes = bool(missing) and run.settings.answer_turn != "off"
        if not (repeats or concludes):
            why = error or missing
            return [*attempts, noted(message, f"cannot be read: {why}") if why else message]
        attempts.append(noted(message, f"asked {'again' if repeats else 'for the answer'}: {error or missing}"))
        if repeats and not show_failed:
            turns = (*ask.turns[:-1], Turn("user", blocks(ask.turns[-1].parts, [error])))
            continue
        turns = (*turns, own_turn(attempts[-1]))
        if concludes:
            return [*attempts, await _answer_turn(run, state, agent, replace(ask, turns=turns), len(attempts))]
        request = agent.prompts.render("shared/repair", complaint=error, form=requested)
        turns = (*turns, Turn("user", request))


def unread(message: Message, error: str, longest: int = 0) -> str:
    """Return the error of a reply. If it was cut, refused or empty, this is the error."""
    if not error or not message.ended:
        return error
    if message.ended == "limit":
        return f"it was cut off at {longest} tokens" if longest else f"it was {CUT}"
    return f"it was {message.notes[0]}" if message.ended == "stopped" else message.notes[0]


async def say_answer(
    run: RunContext[Any],
    state: Discussion,
    agent: Agent,
    ask: Ask,
    *,
    is_read: bool = True,
) -> list[Message]:
    """Return a freely reasoned reply, and an answer turn if the scheme reads an answer (`is_read`) and it has none.

    A scheme reads answers to vote, to decide, or to end early. If the kind of answer has a form, it constrains the
    answer turn, and with `--guide on` also the reply's last line. Forcing that line by default would add it after
    readable answers, and models would contradict themselves. A small model writes a short answer as a sentence, which
    states no answer; so its reply begins after "Answer:".
    """
    form = form_of(state)
    ask = replace(ask, response_format=form and replace(form, after=ANSWER_PREFILL, optional=True))
    if not is_read and run.settings.answer_turn != "every":
        return await say(run, state, agent, ask)
    if is_read and not (form or ask.prefill) and agent.is_hooked and agent.wording != "short":
        ask = replace(ask, prefill=ANSWER_PREFILL, stop=("\n",))
    return await say(run, state, agent, ask, lacks_answer=lacks_answer(state))


def form_of(question: Question) -> Form | None:
    """Return the form of an answer to the question, or None if any text may be an answer."""
    return kinds.KINDS[kinds.kind_of(question)].grammar(question.get("choices") or [])


def answer_pattern(question: Question, otherwise: str) -> str:
    """Return the pattern of an answer to the question or "unknown"; `otherwise` if any text may be an answer."""
    form = form_of(question)
    if form is None:
        return otherwise
    return form.offered.pattern or "|".join(re.sub(r"([^\w\s])", r"\\\1", text) for text in form.offered.choices)


async def _answer_turn(run: RunContext[Any], state: Discussion, agent: Agent, ask: Ask, number: int) -> Message:
    """Ask for the answer alone after an unreadable reply: a short request on the same prefix, as text, at T = 0."""
    wanted, form, choices = kinds.KINDS[kinds.kind_of(state)].placeholder, form_of(state), state.get("choices")
    offered, question = list(form.choices if form else choices or []), ""
    chooses = agent.is_hooked and run.settings.guide != "off"
    phrases: tuple[str, ...] = ()
    if chooses and form is None and (phrases := phrases_of(ask.turns[-1].text, state["question"])):
        question = str(agent.prompt_builder(state).slots()["question"])
    if chooses and kinds.kind_of(state) == "number":
        phrases = figure_of(ask.turns[-1].text, state["question"])
    if phrases:
        form = Form(choices=phrases, spaced=True, unknown=False)  # which a small model would choose
    request = agent.prompts.render("shared/answer_turn", wanted=wanted, choices=offered, question=question)
    short = Ask(
        ask.act,
        (*ask.turns, Turn("user", request)),
        response_format=form,
        prefill=ANSWER_PREFILL,
        stop=("\n",),
        max_tokens=max([ANSWER_TOKENS, *(len(phrase.encode()) + 1 for phrase in phrases)]),  # a byte may be a token
        temperature=0.0,
        protocol="nl",
        thinks=False,
    )
    message = await _attempt(run, state, agent, short, "answer", number)
    error = lacks_answer(state)(message)
    return noted(message, f"cannot be read: {error}") if error else message


async def _attempt(
    run: RunContext[Any],
    state: Discussion,
    agent: Agent,
    ask: Ask,
    reason: Literal["", "repair", "answer"],
    number: int,
) -> Message:
    """Ask once, and return the reply with notes and statistics on what the agent heard and how."""
    attempt = attempt_of(state, agent.name, ask.act) + number
    place = Place(*moment(state), agent.name, ask.act, attempt)
    if in_words_alone(run):
        ask = replace(ask, protocol=WORDS)
    temperature, resampled = ask.temperature, None
    if temperature is None:
        own = agent.temperature_in_words if ask.protocol == WORDS else agent.temperature
        resampled = redrawn(run, state, place, own)
        temperature = own if resampled is None else resampled
    ask = replace(
        ask,
        place=place,
        seed=run.seed(state, agent.name, ask.act, attempt) % 2**32,  # more bits would change the draws of saved runs
        asked=reason,
        temperature=temperature,
        response_format=agent.constraint(ask.response_format),
        silent=ask.silent and carries_all(run, agent.name),
    )
    interventions = [each for each in state.get("interventions", []) if each["agent"] == agent.name]
    handed = [each["why"] for each in interventions if each["what"] == HUMAN]
    speaker = replace(agent, person=handed[0]) if handed and not agent.person else agent
    ask, heard = await off_loop(_as_heard, run, state, speaker, ask)
    message = await _replied(state, speaker, ask, heard)
    notes, numbers = notes_on(run, heard), {}
    if resampled is not None and message.source != HUMAN:
        notes, numbers = (*notes, f"said again at temperature {resampled:g}"), {"temperature": resampled}
    donors, donor_notes = donated(ask.turns)
    return replace(
        message,
        guided=(ask.response_format.after or "whole") if ask.response_format and message.payload else "",
        notes=(*message.notes, *notes, *donor_notes),
        stats={**message.stats, **numbers},
        donors=donors,
    )


def _as_heard(run: RunContext[Any], state: Discussion, speaker: Agent, ask: Ask) -> tuple[Ask, list[Hearing]]:
    """Return a request changed by the settings of hearing, and the others' messages in it; this reads payloads."""
    turns = with_thoughts(run, speaker.name, escalated(run, state, ask.turns))
    ask = replace(ask, turns=with_donors(run, state, speaker, turns) if speaker.local else turns)
    return ask, heard_in(run, speaker.name, None if speaker.person else speaker.local, ask)


async def _replied(state: Discussion, speaker: Agent, ask: Ask, hearings: list[Hearing]) -> Message:
    """Return the reply of the agent, or of a person who took it over or rewrote its message.

    The call is reported to streams. A saved run records the prompt and the messages heard in it: before a model
    replies, but with a person's reply, since LangGraph runs that node twice.
    """
    from langchain_core.runnables.config import ensure_config  # late, as all that imports langchain or langgraph

    from sottovoce.agents import person
    from sottovoce.nodes.act import RUNNING
    from sottovoce.nodes.streams import report

    where = {name: value for name, value in ask.place._asdict().items() if name != "epoch"}
    report({"type": "act", **where, "asked": ask.asked})  # type: ignore[typeddict-item]  # its keys are of a place
    config = ensure_config()
    texts = state.get("pending", {}).get(config.get("metadata", {}).get("langgraph_node", ""), {}).get("written", {})
    if ask.act in texts and not ask.asked:
        return replace(person.from_text(ask, texts[ask.act]), order=speaker.order)
    _, discussion = RUNNING.get() or (None, None)
    if discussion is None:
        return await speaker.reply(ask)
    if not speaker.person:
        discussion.ask(ask.place, speaker.prompt(ask), hearings)
    message = await speaker.reply(ask, discussion.grows(ask))
    if speaker.person:
        discussion.ask(ask.place, speaker.prompt(ask), hearings)
    return message


def lacks_answer(question: Question) -> Validate:
    """Return a check that reports a reply without an answer, unless the reply calls the answer unknown."""

    def validate(message: Message) -> str:
        is_stated = kinds.reading(message, question).answer or kinds.declines(message.whole_text, question)
        return "" if is_stated else f"it holds no {kinds.KINDS[kinds.kind_of(question)].words}"

    return validate


def noted(message: Message, note: str) -> Message:
    """Return a message with one more note."""
    return replace(message, notes=(*message.notes, note))


async def answer(run: RunContext[Any], state: Discussion, agent: Agent, protocol: str | None = None) -> Update:
    """Answer alone, with the documents of all agents, unless the settings leave some out."""
    known = state.copy()
    known["documents"] = run.settings.dealt(state.get("documents") or [])
    turns = agent.prompt_builder(known, None).independent()
    return {"board": await say_answer(run, state, agent, Ask("answer", turns, protocol=protocol))}
