"""`Person`: stands where a model would, in the seat of an agent whom a person plays; the graph asks that one."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from sottovoce.errors import UsageError


class Person(BaseChatModel):
    """Hears and says words alone, as a hosted model does; no weights are loaded for it."""

    @property
    def _llm_type(self) -> str:
        return "person"

    def _generate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:  # Any: as LangChain has it
        raise UsageError("a person was asked for what a model must say; give a model, or another agent to the person")
