"""People as agents: the graph stops with a request (LangGraph's `interrupt`), and resumes with the reply.

The request (`Interrupt.value`) is plain JSON, and so is the value to resume with: a text, or an object with one under
"text".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from sottovoce.agents.ask import HUMAN, Ask
from sottovoce.channels.message import Message, words
from sottovoce.core.any_types import JSON, AnyState, Untyped
from sottovoce.core.errors import UsageError
from sottovoce.prompts.structured import encodable

SAVER = "__pregel_checkpointer"
"""The key of a run's checkpointer in LangGraph's configuration (1.2); without one an interrupt ends a run for good."""
EXPECTED = 'a text, or {"text": "..."}'
Answered = bool | str
BEGINNING = "the settings say that a person plays it"


class Person(BaseChatModel):
    """A placeholder that hears and speaks only words, as a hosted model does; it loads no weights."""

    @property
    def _llm_type(self) -> str:
        return "person"

    def _generate(self, messages: list[BaseMessage], *args: Untyped, **kwargs: Untyped) -> ChatResult:
        raise UsageError("a person was asked for a reply that needs a model; give the agent a model")


def reply(ask: Ask, why: str) -> Message:
    """Ask a person, who sees the agent, the act, the reason, and the turns that a model would read.

    Each call is a separate request: an unreadable reply is requested again, like a model's.
    """
    turns, place = [[turn.role, words(turn.parts)] for turn in ask.turns], ask.place
    value = {"agent": place.agent, "act": place.act, "why": why, "turns": turns, "begun": words(ask.prefill)}
    return from_text(ask, str(ask_person(value, text_of)))


def from_text(ask: Ask, text: str) -> Message:
    """Return a person's text as the reply to a request."""
    text = encodable(text).removeprefix(begun := words(ask.prefill))
    return Message(**ask.place._asdict(), text=text, begun=begun, asked=ask.asked, source=HUMAN)


def check_saver(why: str, config: RunnableConfig) -> None:
    """Refuse a graph that cannot resume after an interrupt."""
    if not config.get("configurable", {}).get(SAVER):
        raise UsageError(f"{why}, but the graph has no checkpointer; compile it with one")


def ask_person(value: JSON, read: Callable[[Any], Answered | None], expected: str = EXPECTED) -> Answered:
    """Interrupt with `value` until the graph is resumed with a valid reply; the error is added as "wrong".

    The values that a graph was resumed with stay in its checkpoints: an exception would block the thread forever.
    """
    found = read(answer := interrupt(value))
    while found is None:
        found = read(answer := interrupt({**value, "wrong": f"found {answer!r}; expected {expected}"}))
    return found


def text_of(reply: AnyState) -> str | None:
    """Return the text of a reply, or None if it has none."""
    text = reply.get("text") if isinstance(reply, dict) else reply
    return text if isinstance(text, str) else None
