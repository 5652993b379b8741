"""`Person`: the placeholder model of an agent that a person plays; the graph asks that person."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from sottovoce.core.errors import UsageError


class Person(BaseChatModel):
    """A placeholder that hears and speaks only words, as a hosted model does; it loads no weights."""

    @property
    def _llm_type(self) -> str:
        return "person"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:  # Any: LangChain's own
        raise UsageError("a person was asked for a reply that needs a model; give the agent a model")
