"""One question to one agent's model, whatever the model is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs

from sottovoce.agents.convert import in_words, to_messages
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Turn
from sottovoce.errors import ContextOverflow, EngineError


@dataclass(frozen=True)
class Ask:
    """What an act asks of a model."""

    agent: str
    model: BaseChatModel
    turns: tuple[Turn, ...]
    act: str
    round: int
    seed: int
    temperature: float | None = None
    speaks: str | None = None
    """`nl` lets a latent hearer answer in words; None answers by the model's own protocol."""
    attempt: int = 0
    """Above 0 where an act is done again, since what was said could not be read."""


def is_hooked(model: BaseChatModel) -> bool:
    """True where heard messages reach the model as messages and not only as text."""
    return isinstance(model, HookedChatModel) or (isinstance(model, ScriptedChatModel) and model.hooked)


def ask(question: Ask, config: RunnableConfig) -> AIMessage:
    """Ask and wait; callbacks and streams of the graph's run see the call."""
    messages, options = _call(question)
    with _named(question):
        return question.model.invoke(messages, _config(question, config), **options)


async def aask(question: Ask, config: RunnableConfig) -> AIMessage:
    """`ask` without blocking the event loop."""
    messages, options = _call(question)
    with _named(question):
        return await question.model.ainvoke(messages, _config(question, config), **options)


@contextmanager
def _named(question: Ask) -> Iterator[None]:
    """An engine knows no agents: of several models in one discussion, the error names whose it was."""
    try:
        yield
    except (ContextOverflow, EngineError) as error:
        raise type(error)(f"{question.agent}: {error}") from error


def _call(question: Ask) -> tuple[list[BaseMessage], dict[str, Any]]:  # Any: keyword arguments
    """A hosted model gets words, and no option but its temperature: it may not know the others."""
    options: dict[str, Any] = {} if question.temperature is None else {"temperature": question.temperature}
    if not is_hooked(question.model):
        return in_words(question.turns), options
    if question.speaks is not None:
        options["speaks"] = question.speaks
    return to_messages(question.turns), options | {"seed": question.seed}


def _config(question: Ask, config: RunnableConfig) -> RunnableConfig:
    about = {"agent": question.agent, "act": question.act, "round": question.round, "attempt": question.attempt}
    return merge_configs(config, {"metadata": about})
