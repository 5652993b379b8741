"""`ScriptedChatModel`: a queue of replies per agent, and a record of all calls.

It is for tests, and for trying a graph without a model. Every node puts the agent's name into the
call's metadata; a call without metadata takes from the queue of "".
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import Field, PrivateAttr

from sottovoce.agents.ask import Ask
from sottovoce.agents.convert import from_langchain, local_options, result, to_turns
from sottovoce.agents.local import Grew
from sottovoce.channels.message import Message, Place, Turn
from sottovoce.core.any_types import Keywords, Untyped
from sottovoce.core.errors import UsageError


@dataclass(frozen=True)
class RecordedCall:
    """One call as the model saw it."""

    agent: str
    act: str
    round: int
    turns: tuple[Turn, ...]
    options: Mapping[str, Keywords]
    place: Mapping[str, Any] = field(default_factory=dict)  # Any: epoch, round, turn, agent, act, attempt
    """The place of the reply on the board."""

    @property
    def text(self) -> str:
        """The prompt as text; a line with the role precedes each turn."""
        return "\n".join(f"[{turn.role}]\n{turn.text}" for turn in self.turns)


class ScriptedChatModel(BaseChatModel):
    """A chat model that returns prepared replies in order."""

    replies: dict[str, list[str]] = Field(default_factory=dict)
    """Replies by agent; the key "" serves every agent without a queue of its own."""
    hooked: bool = True
    """Whether to get heard messages as a hooked model does; False imitates a hosted model, which gets plain text."""
    pack: str | None = None
    """The prompt pack of the imitated model, if it has one."""
    wording: Literal["short", "sentence"] = "short"
    """The wording of requests for answers to the imitated model."""
    temperature: float | None = None
    """The temperature of the imitated model, which decides where the agent with the lowest one does (CIPHER)."""

    _recorded: list[RecordedCall] = PrivateAttr(default_factory=list)
    _lock: Untyped = PrivateAttr(default_factory=threading.Lock)
    _key: str = PrivateAttr(default_factory=lambda: secrets.token_hex(8))

    def __init__(self, replies: Mapping[str, Iterable[str]] | Iterable[str] = (), **kwargs: Any) -> None:
        """Create the model from `replies` by agent name, or from one queue for all agents."""
        queues = replies if isinstance(replies, Mapping) else {"": replies}
        given: dict[str, Any] = {"replies": {agent: list(queue) for agent, queue in queues.items()}, **kwargs}
        super().__init__(**given)

    @property
    def calls(self) -> list[RecordedCall]:
        """Every call so far, in order."""
        return list(self._recorded)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"script": self._key}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        about = (run_manager.metadata if run_manager else None) or {}
        place = {name: about[name] for name in Place._fields if name in about}
        options = {**kwargs, **({"stop": stop} if stop else {})}
        text = self._recorded_reply(place, tuple(to_turns(messages)), options)
        return result(AIMessage(content=text))

    async def reply(self, ask: Ask, grew: Grew | None = None) -> Message:
        """Return the next reply of the agent's queue as a message for the board; it is not streamed in pieces."""
        text = self._recorded_reply(ask.place._asdict(), ask.turns, local_options(ask))
        return from_langchain(AIMessage(content=text), ask)

    def _recorded_reply(
        self, place: Mapping[str, Any], turns: tuple[Turn, ...], options: Mapping[str, Keywords]
    ) -> str:
        agent, act, round = (place.get(name) for name in ("agent", "act", "round"))
        with self._lock:
            self._recorded.append(RecordedCall(agent or "", act or "", round or 0, turns, options, place))
            return self._next(agent or "")

    def _next(self, agent: str) -> str:
        queue = self.replies.get(agent, self.replies.get("", []))
        if not queue:
            raise UsageError(
                f"the script of agent {agent!r} is empty after {len(self._recorded)} calls; give it more replies"
            )
        return queue.pop(0)
