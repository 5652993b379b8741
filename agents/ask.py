"""Requests to an agent's model, local or hosted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs

from sottovoce.agents.convert import block, in_words, to_messages
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.hosted import awithin, cut_reply, note_model, noted, structured, within
from sottovoce.agents.parameters import Refused, cut_at
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Part, Place, Turn, words
from sottovoce.core.any_types import Keywords, Untyped
from sottovoce.core.errors import ContextOverflow, EngineError, LateReply, UsageError
from sottovoce.core.response_format import Form


@dataclass(frozen=True)
class Ask:
    """A request of an act to an agent, with the format of the reply. Fields that are None use the run's values."""

    agent: str
    act: str
    turns: tuple[Turn, ...]
    response_format: Form | None = None
    """The format of the reply."""
    prefill: str | tuple[Part, ...] = ""
    """The beginning of the reply, which the agent continues: "Thought 3:". It may contain messages of others."""
    stop: tuple[str, ...] = ()
    """Strings that end the reply; they are not part of it."""
    max_tokens: int | None = None
    temperature: float | None = None
    protocol: str | None = None
    """The protocol of the reply: with `nl`, an agent that hears by a latent protocol answers in words."""
    silent: bool = False
    """True if the reply needs no words: a protocol that carries enough without them then writes none."""

    thinks: bool = True
    """False if a model that thinks is to reply without thoughts."""


@dataclass(frozen=True)
class Call:
    """One call of a model."""

    ask: Ask
    model: BaseChatModel
    place: Place
    """The place of the reply on the board."""
    seed: int
    temperature: float | None
    asked: Literal["", "repair", "answer"] = ""
    """The reason for asking if it is not the first attempt: see `Message.asked`."""
    refused: Refused = field(default_factory=Refused)
    """The parameters that servers have refused in this run."""

    def invoke(self, config: RunnableConfig) -> AIMessage:
        """Call the model and return its reply; callbacks and streams of the graph's run see the call."""
        (messages, options), notes = self._request(), list[str]()
        whole = merge_configs(config, {"metadata": {**self.place._asdict(), "asked": self.asked}})
        with self._named():
            while True:
                model, sent = self.refused.sent(self.model, options)
                try:
                    return self._finished(within(model, partial(model.invoke, messages, whole, **sent)), sent, notes)
                except Exception as error:
                    if reply := self._mended(error, sent, notes):
                        return reply

    async def ainvoke(self, config: RunnableConfig) -> AIMessage:
        """Return what `invoke` returns, without blocking the event loop."""
        (messages, options), notes = self._request(), list[str]()
        whole = merge_configs(config, {"metadata": {**self.place._asdict(), "asked": self.asked}})
        with self._named():
            while True:
                model, sent = self.refused.sent(self.model, options)
                try:
                    return self._finished(await awithin(model, model.ainvoke(messages, whole, **sent)), sent, notes)
                except Exception as error:
                    if reply := self._mended(error, sent, notes):
                        return reply

    def _finished(self, reply: BaseMessage, sent: dict[str, Keywords], notes: list[str]) -> AIMessage:
        """Return a reply with notes on it, cut at the stop strings if its server refused them."""
        about = reply.response_metadata
        message = reply if isinstance(reply, AIMessage) else AIMessage(str(reply.text), response_metadata=about)
        if is_hooked(self.model):
            return message
        return noted(message if "stop" in sent else cut_at(message, self.ask.stop), notes)

    def _mended(self, error: Exception, sent: dict[str, Keywords], notes: list[str]) -> AIMessage | None:
        """Return the reply in an error; None after noting a refused parameter, without which the call is made again."""
        if (reply := cut_reply(self.model, error)) is not None:
            return self._finished(reply, sent, notes)
        if is_hooked(self.model):
            raise error
        notes += self.refused.learn(self.model, sent, error)
        return None

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add the agent's name to an error of the engine, which knows no agents, and a hosted model's to its own."""
        try:
            yield
        except (ContextOverflow, EngineError) as error:
            whose = f"{self.ask.agent}, {self.ask.act}" if isinstance(error, LateReply) else self.ask.agent
            raise type(error)(f"{whose}: {error}") from error
        except Exception as error:
            note_model(self.model, error)
            raise

    def _request(self) -> tuple[list[BaseMessage], dict[str, Keywords]]:
        """Return the messages and options of the call; hosted models get words and standard options only."""
        ask = self.ask
        standard = {"temperature": self.temperature, "max_tokens": ask.max_tokens, "stop": list(ask.stop) or None}
        options: dict[str, Any] = {name: value for name, value in standard.items() if value is not None}
        if not is_hooked(self.model):
            return in_words(ask.turns, words(ask.prefill)), options | structured(self.model, ask.response_format)
        ours: dict[str, Any] = {
            "speaks": ask.protocol,
            "prefill": ask.prefill if isinstance(ask.prefill, str) else [block(part) for part in ask.prefill],
            "response_format": asdict(ask.response_format) if ask.response_format else None,
            "silent": ask.silent,
        }
        options |= {name: value for name, value in ours.items() if value}
        options |= {} if ask.thinks else {"thinking": False}
        return to_messages(ask.turns), options | {"seed": self.seed}


def is_hooked(model: BaseChatModel) -> bool:
    """Return whether heard messages reach the model as messages and not only as text."""
    return isinstance(model, HookedChatModel) or (isinstance(model, ScriptedChatModel) and model.hooked)


class Person(BaseChatModel):
    """A placeholder that hears and speaks only words, as a hosted model does; it loads no weights."""

    @property
    def _llm_type(self) -> str:
        return "person"

    def _generate(self, messages: list[BaseMessage], *args: Untyped, **kwargs: Untyped) -> ChatResult:
        raise UsageError("a person was asked for a reply that needs a model; give the agent a model")
