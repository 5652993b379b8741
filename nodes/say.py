"""An agent says something, once more where it must be in a form and cannot be read, and then abstains."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.nodes.act import message_of
from sottovoce.nodes.stage import Stage
from sottovoce.nodes.state import Discussion, Question
from sottovoce.prompts import kinds

Saying = Generator[Ask, AIMessage, list[Message]]
"""Ends with the attempts, one or two; the raw text of both stays on the board."""
Complain = Callable[[str], str]
"""What is wrong with a reply, in a few words; empty where it can be read."""


def say(
    stage: Stage[Any],  # Any: of every scheme
    state: Discussion,
    agent: str,
    turns: list[Turn],
    act: str,
    *,
    complain: Complain = lambda text: "",
    form: str = "",
    speaks: str | None = None,
) -> Saying:
    """Ask `agent`; where there is something to complain of, ask it once to say it again in the `form`."""
    question = stage.ask(state, agent, turns, act, speaks=speaks)
    first = message_of(question, (yield question))
    complaint = complain(first.text)
    if not complaint:
        return [first]
    request = Turn("user", stage.prompts.render("shared/repair", complaint=complaint, form=form))
    repair = [*turns, Turn("assistant", (Heard(first, own=True),)), request]
    question = stage.ask(state, agent, repair, act, first.attempt + 1, speaks=speaks)
    second = message_of(question, (yield question))
    note = complain(second.text)
    return [_noted(first, f"asked again: {complaint}"), _noted(second, f"cannot be read: {note}" if note else "")]


def unreadable(question: Question) -> Complain:
    """The complaint of a text that holds no answer to the question, and does not say that it is unknown either."""
    kind, choices = question.get("kind", "number"), question.get("choices")

    def complain(text: str) -> str:
        readable = kinds.read(text, kind, choices) is not None or kinds.declines(text)
        return "" if readable else f"it holds no {kinds.named(kind)}"

    return complain


def _noted(message: Message, note: str) -> Message:
    return replace(message, notes=(*message.notes, note)) if note else message
