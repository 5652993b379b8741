"""Requests to an agent: repeated if the reply is not in its form, then the answer turn; otherwise it abstains."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from langchain_core.messages import AIMessage

from sottovoce.agents.ask import Ask, Call, is_hooked
from sottovoce.agents.convert import said
from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.agents.hosted import EMPTY, REFUSAL
from sottovoce.channels.message import Message, Place, Turn, words
from sottovoce.channels.store import PayloadRef
from sottovoce.core.any_types import AnyState
from sottovoce.core.bounds import MOST_TOKENS
from sottovoce.core.errors import ContextOverflow
from sottovoce.core.response_format import Form
from sottovoce.nodes.act import reply_to
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.hearing import escalated, hearing, with_thoughts
from sottovoce.nodes.human_input import HUMAN
from sottovoce.nodes.probes import donated, with_donors
from sottovoce.nodes.prompt_builder import blocks, own_turn
from sottovoce.nodes.question import Question
from sottovoce.nodes.setup import carries_all
from sottovoce.nodes.state import NOTE, Discussion, Update, attempt_of, current_messages, moment
from sottovoce.nodes.uncertainty import measured
from sottovoce.nodes.watch import redrawn
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds.words import LONGEST
from sottovoce.prompts.structured import encodable

ANSWER_PREFILL = "Answer:"
ANSWER_TOKENS = 32
CUT, STOPPED = "cut at the token limit", "stopped by its server"
ENDED_EARLY = {"length": CUT, "max_tokens": CUT} | dict.fromkeys(("content_filter", "safety", "recitation"), STOPPED)
"""The note on a reply that is not whole, by its provider's word for the reason."""
COMMON = (
    "a an the of in on at by to for from with and or as is are was were be been it its he she they his her their this "
    "that there which who whose where what when i you we my our has have had do does did so because answer"
).split()
"""Words that are no answer by themselves, in `phrases_of`."""
MOST_PHRASES = 32
MOST_REPORTED = 1_000 * MOST_TOKENS
"""Limit on the numbers of tokens that a server reports for one call."""
_WORD = re.compile(r"[^\s.,;:!?()\"]+(?:[.,][^\s.,;:!?()\"]+)*")
Read = Callable[..., kinds.Reading]
"""Reads a reply, as `kinds.reading`: its text, the question, and `cut`."""
Validate = Callable[[Message], str]
"""Returns a short description of what is wrong with a reply; empty if it can be read."""


def say(
    run: RunContext[AnyState],
    state: Discussion,
    ask: Ask,
    *,
    validate: Validate = lambda message: "",
    requested: str = "",
    retries: int = 1,
    lacks_answer: Validate = lambda message: "",
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
    usual = ask.max_tokens or getattr(run.model(ask.agent), "max_tokens", None) or run.settings.max_tokens
    longest = usual
    while True:
        try:
            message = _attempt(run, state, replace(ask, turns=turns), "repair" if attempts else "", len(attempts))
        except ContextOverflow:
            if longest == usual:
                raise
            longest, ask = usual, replace(ask, max_tokens=usual)  # the model has no room for twice the length
            continue
        error = unread(message, validate(message), longest)
        was_cut, cut = cut, cut or CUT in message.notes
        repeats = bool(error) and len(attempts) < retries and not (was_cut and CUT in message.notes)
        if repeats and cut and not was_cut:
            longest, ask = 2 * usual, replace(ask, max_tokens=2 * usual)
        missing = "" if repeats else lacks_answer(message)
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
            return [*attempts, _answer_turn(run, state, replace(ask, turns=turns), len(attempts))]
        request = run.prompts_of(ask.agent).render("shared/repair", complaint=error, form=requested)
        turns = (*turns, Turn("user", request))


def unread(message: Message, error: str, longest: int = 0) -> str:
    """Return why a reply has an error: rather than what it lacks, that it is not whole, was refused or is empty."""
    if not error or not message.notes:
        return error
    if CUT in message.notes:
        return f"it was cut off at {longest} tokens" if longest else f"it was {CUT}"
    return next((note for note in message.notes if note == EMPTY or note.startswith(REFUSAL)), error)


def say_answer(
    run: RunContext[Any], state: Discussion, ask: Ask, read: Read = kinds.reading, *, is_read: bool = True
) -> list[Message]:
    """Return a freely reasoned reply, and the answer turn if it holds no answer but the scheme reads one (`is_read`).

    A scheme reads the answers that it votes on, decides by, or ends early for. If answers of the kind have a form, it
    constrains the answer turn, and with `--guide on` also the reply's last line. Forcing that line by default would
    add it after readable answers, where models contradict themselves. A small model writes its answer in a few words
    as a sentence, which states nothing: its reply begins behind "Answer:".
    """
    form = form_of(state)
    ask = replace(ask, response_format=form and replace(form, after=ANSWER_PREFILL, optional=True))
    if not is_read and run.settings.answer_turn != "every":
        return say(run, state, ask)
    if is_read and not (form or ask.prefill) and is_hooked(run.model(ask.agent)) and run.wording(ask.agent) != "short":
        ask = replace(ask, prefill=ANSWER_PREFILL, stop=("\n",))
    return say(run, state, ask, lacks_answer=lacks_answer(state, read))


def form_of(question: Question) -> Form | None:
    """Return the form of an answer to the question; None if any text may be an answer."""
    return kinds.KINDS[kinds.kind_of(question)].grammar(question.get("choices") or [])


def phrases_of(text: str, question: str) -> tuple[str, ...]:
    """Return the short phrases of a reply without the question's words and the commonest ones; the last of many.

    A small model that is asked for the answer alone repeats its sentence; of these phrases it chooses the answer. There
    are none if the question itself may have the answer ("..., Ada or Eve?").

    >>> phrases_of("Sable Point lies on the river Orn.", "On which river does the town where Ada lives lie?")
    ('Sable Point', 'Orn')
    """
    if re.search(r"\bor\b", question):
        return ()
    from Stemmer import Stemmer  # late: the command line's help does not need it

    stem = Stemmer("english").stemWord  # the question says "lie", the reply "lies"
    common = {stem(word.casefold()) for word in (*_WORD.findall(question), *COMMON)}
    clauses = re.split(r"[.,;:!?()\"\n]+(?:\s|$)", text)
    marked = [[(word, stem(word.casefold()) in common) for word in _WORD.findall(clause)] for clause in clauses]
    runs = (
        " ".join(word for word, _ in run)
        for clause in marked
        for left, run in groupby(clause, itemgetter(1))
        if not left
    )
    return tuple(dict.fromkeys(run for run in runs if len(run.split()) <= LONGEST))[-MOST_PHRASES:]


def answer_pattern(question: Question, otherwise: str) -> str:
    """Return the pattern of an answer to the question or "unknown"; `otherwise` if any text may be an answer."""
    form = form_of(question)
    if form is None:
        return otherwise
    return form.offered.pattern or "|".join(re.sub(r"([^\w\s])", r"\\\1", text) for text in form.offered.choices)


def _answer_turn(run: RunContext[Any], state: Discussion, ask: Ask, number: int) -> Message:
    """Ask for the answer alone after an unreadable reply: a short request on the same prefix, as text, at T = 0."""
    wanted, form, choices = kinds.KINDS[kinds.kind_of(state)].placeholder, form_of(state), state.get("choices")
    offered, question = list(form.choices if form else choices or []), ""
    chooses = form is None and is_hooked(run.model(ask.agent)) and run.settings.guide != "off"
    phrases = phrases_of(ask.turns[-1].text, state["question"]) if chooses else ()
    if phrases:
        form = Form(choices=phrases, spaced=True, unknown=False)  # which a small model would choose
        question = str(run.prompt_builder(state, ask.agent).slots()["question"])
    request = run.prompts_of(ask.agent).render("shared/answer_turn", wanted=wanted, choices=offered, question=question)
    short = Ask(
        ask.agent,
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
    message = _attempt(run, state, short, "answer", number)
    error = lacks_answer(state)(message)
    return noted(message, f"cannot be read: {error}") if error else message


def _attempt(
    run: RunContext[Any], state: Discussion, ask: Ask, reason: Literal["", "repair", "answer"], number: int
) -> Message:
    """Make one call, and return its reply as a message, with notes and statistics on what the agent heard and how."""
    attempt = attempt_of(state, ask.agent, ask.act) + number
    place = Place(*moment(state), ask.agent, ask.act, attempt)
    temperature, resampled = ask.temperature, None
    if temperature is None:
        own = run.temperature(ask.agent, words=ask.protocol == WORDS)
        resampled = redrawn(run, state, place, own)
        temperature = own if resampled is None else resampled
    turns = with_donors(run, state, ask.agent, with_thoughts(run, escalated(run, state, ask.turns)))
    silent = ask.silent and carries_all(run, ask.agent)
    ask = replace(ask, response_format=run.constraint(ask.response_format), turns=turns, silent=silent)
    seed = run.seed(state, ask.agent, ask.act, attempt)
    call = Call(ask, run.model(ask.agent), place, seed, temperature, reason, run.refused)
    reply = reply_to(call, state)
    message, (notes, numbers) = message_of(call, reply, run.order(ask.agent)), hearing(run, turns)
    if resampled is not None and message.source != HUMAN:
        notes, numbers = (*notes, f"said again at temperature {resampled:g}"), {**numbers, "temperature": resampled}
    donors, donor_notes = donated(turns)
    unread = call.model.unread(turns) if isinstance(call.model, HookedChatModel) else ()
    return replace(
        message,
        measured=measured(reply, message.text, run.store),
        guided=(ask.response_format.after or "whole") if ask.response_format and message.payload else "",
        notes=(*message.notes, *notes, *donor_notes, *unread),
        stats={**message.stats, **numbers},
        donors=donors,
    )


def message_of(call: Call, reply: AIMessage, order: int) -> Message:
    """Return a reply as a message for the board; `order` is its agent's place in the settings."""
    ref, begun, (tokens, absurd) = reply.additional_kwargs.get("payload"), words(call.ask.prefill), usage_of(reply)
    stats: dict[str, float] = {**reply.additional_kwargs.get("stats", {}), **tokens}
    thoughts, text = map(encodable, said(reply))
    text = text if ref else text.removeprefix(begun)  # a hosted model may repeat it
    about, spoken = reply.response_metadata, reply.additional_kwargs.get("thoughts_payload")
    cut = ENDED_EARLY.get(str(about.get("finish_reason", about.get("stop_reason"))).lower())
    return Message(
        **call.place._asdict(),
        text=text,
        order=order,
        begun=begun,
        asked=call.asked,
        payload=PayloadRef.from_dict(ref) if ref else None,
        source=reply.additional_kwargs.get("source", "model" if ref else "hosted"),
        cut=bool(cut),
        notes=(*filter(None, (cut, absurd)), *reply.additional_kwargs.get("notes", ())),
        stats=stats,
        thoughts=thoughts,
        thoughts_payload=PayloadRef.from_dict(spoken) if spoken else None,
    )


def usage_of(reply: AIMessage) -> tuple[dict[str, float], str]:
    """Return the token counts of a reply, and a note if a server reported some that cannot be; they are left out.

    Some servers omit the usage, or report only zeros.
    """
    usage: Any = reply.usage_metadata or {}  # Any: clients do not check what a server sends
    details = usage.get("input_token_details") or {}
    reused = details.get("cache_read") or 0 if isinstance(details, Mapping) else details
    details = usage.get("output_token_details") or {}
    thought = details.get("reasoning") or 0 if isinstance(details, Mapping) else details
    counts = {"tokens_in": usage.get("input_tokens"), "tokens_reused": reused, "tokens_out": usage.get("output_tokens")}
    counts |= {"tokens_thoughts": thought} if thought else {}
    if None in counts.values() or counts["tokens_in"] == 0:
        return {}, ""
    if not all(type(n) in (int, float) and 0 <= n <= MOST_REPORTED for n in counts.values()):
        return {}, "its server reported numbers of tokens that cannot be: they are not counted"
    return counts | {"tokens_out": max(counts["tokens_out"] - thought, 0)}, ""


def lacks_answer(question: Question, read: Read = kinds.reading) -> Validate:
    """Return the check that says what a reply lacks if it neither states an answer nor calls it unknown."""

    def validate(message: Message) -> str:
        text = message.full_text
        stated = read(text, question, cut=message.cut).answer is not None or kinds.declines(text)
        return "" if stated else f"it holds no {kinds.KINDS[kinds.kind_of(question)].words}"

    return validate


def noted(message: Message, note: str) -> Message:
    """Return a message with one more note."""
    return replace(message, notes=(*message.notes, note))


def answer(run: RunContext[Any], state: Discussion, agent: str, protocol: str | None = None) -> Update:
    """Answer alone, with the documents of all agents, unless the settings leave some out."""
    known = state.copy()
    known["documents"] = run.settings.dealt(state.get("documents") or [])
    builder = run.prompt_builder(known, agent, None)
    ask = Ask(agent, "answer", builder.independent(), protocol=protocol)
    return {"board": say_answer(run, state, ask)}


def in_words(run: RunContext[Any], state: Discussion, agent: str) -> Update:
    """Answer as text under every protocol: a mean embedding leaves nothing to sample."""
    return answer(run, state, agent, "nl")
