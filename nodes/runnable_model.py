"""Any runnable from messages to a message as an agent's model, such as a compiled agent with tools of its own.

It hears and speaks words, as a hosted model does; the settings of models (temperature, max_tokens, ...) are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langgraph.pregel import Pregel

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError
from sottovoce.core.text import shortened


class RunnableModel(BaseChatModel):
    """A runnable as a chat model; a graph takes and returns `messages`."""

    # Any: pydantic would validate a Runnable's own type parameters
    runnable: Any

    @property
    def _llm_type(self) -> str:
        return "runnable"

    def _generate(self, messages: list[BaseMessage], *args: Untyped, **kwargs: Untyped) -> ChatResult:
        return self._result(self.runnable.invoke(self._input(messages)))

    async def _agenerate(self, messages: list[BaseMessage], *args: Untyped, **kwargs: Untyped) -> ChatResult:
        return self._result(await self.runnable.ainvoke(self._input(messages)))

    def _input(self, messages: list[BaseMessage]) -> Untyped:
        return {"messages": messages} if isinstance(self.runnable, Pregel) else messages

    def _result(self, result: Any) -> ChatResult:  # Any: what the runnable returned
        last = (result.get("messages") or [None])[-1] if isinstance(result, Mapping) else result
        if not isinstance(last, BaseMessage | str):
            raise UsageError(f"a runnable agent returned {shortened(repr(result))}; expected a message, or `messages`")
        said = last if isinstance(last, AIMessage) else AIMessage(last if isinstance(last, str) else str(last.text))
        return ChatResult(generations=[ChatGeneration(message=said)])


def as_model(model: Any) -> Any:  # Any: as a user gave it
    """Return a runnable as a chat model, a mapping with its runnables so, and anything else as it is."""
    if isinstance(model, Mapping):
        return {name: as_model(each) for name, each in model.items()}
    runs = isinstance(model, Runnable) and not isinstance(model, BaseChatModel)
    return RunnableModel(runnable=model) if runs else model
