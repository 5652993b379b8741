"""Structured output and tool calls of local models.

Both are constrained decoding: structured output of a JSON schema, a tool call of the form that the model's own chat
template writes. A call is one for each reply. The model reads the tools as its template shows them, and nothing else is
added to a prompt; so descriptions in a schema of structured output are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.output_parsers import BaseOutputParser, JsonOutputParser, PydanticOutputParser
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass

from sottovoce.agents.convert import call_id
from sottovoce.core.any_types import JSON, Keywords, Untyped
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.response_format import Form

if TYPE_CHECKING:
    from sottovoce.models import LoadedModel

METHODS = ("json_schema", "function_calling", "json_mode")
"""The ways of other models to structured output; here all are the same."""
FORCED = ("any", "required", True)
ALWAYS = ("strict", "parallel_tool_calls")
"""Options of other models that have no effect: every call has its schema, and there is one."""


def structured_output(model: BaseChatModel, schema: Any, include_raw: bool, options: JSON) -> Runnable[Any, Any]:
    """Return the model with replies of a schema: a pydantic class, a TypedDict, or a JSON schema."""
    method = options.pop("method", METHODS[0])
    if method not in METHODS:
        raise UsageError(nearest("method of structured output:", method, METHODS))
    for name in options:
        if name not in ALWAYS:
            raise UsageError(nearest("option of structured output:", name, ["method", *ALWAYS]))
    plain = convert_to_json_schema(schema)
    from sottovoce.models.huggingface.tool_calls import closed  # late: it imports torch

    llm = model.bind(
        response_format=asdict(Form(closed(plain), unknown=False)),
        ls_structured_output_format={"kwargs": {"method": method}, "schema": plain},
    )
    is_class = isinstance(schema, type) and is_basemodel_subclass(schema)
    parser: BaseOutputParser[Any] = PydanticOutputParser(pydantic_object=schema) if is_class else JsonOutputParser()
    if not include_raw:
        return llm | parser
    read = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
    unread = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=llm) | read.with_fallbacks([unread], exception_key="parsing_error")


def bound(model: BaseChatModel, tools: Sequence[Any], tool_choice: Any, options: JSON) -> Runnable[Any, AIMessage]:
    """Return the model with tools: functions, LangChain's tools, pydantic classes or JSON schemas."""
    plain = [convert_to_openai_tool(tool) for tool in tools]
    names = [tool["function"]["name"] for tool in plain]
    if isinstance(tool_choice, Mapping):  # OpenAI's form
        tool_choice = tool_choice.get("function", tool_choice).get("name")
    if tool_choice not in (None, False, "auto", "none", *FORCED, *names):
        raise UsageError(nearest("tool_choice:", tool_choice, ["any", "auto", "none", *names]))
    rest = {name: value for name, value in options.items() if name not in ALWAYS}
    return model.bind(tools=plain, tool_choice=tool_choice or "auto", **rest)


@dataclass(frozen=True)
class Tools:
    """The tools of one call, and the model whose chat template shows them."""

    loaded: LoadedModel
    tools: Sequence[JSON]
    choice: Untyped
    """"auto": the model may call one; "none": it answers in words; "any", or a name: it calls one."""

    @classmethod
    def of(cls, loaded: LoadedModel, options: Mapping[str, Keywords]) -> Tools | None:
        """Return the tools among a call's options, or None if there is none.

        Raises:
            UsageError: the chat template has no tools; or the call has a response format or a prefill of its own.
        """
        if not options.get("tools"):
            return None
        for name in ("response_format", "prefill"):
            if options.get(name):
                raise UsageError(f"a call has tools and {name}; a tool call has its own format; leave one out")
        tools: Any = options["tools"]  # Any: plain JSON by `bound`
        with_tools = loaded.varied(chat=loaded.chat.with_tools(tools))
        return cls(with_tools, tools, options.get("tool_choice", "auto"))

    @property
    def preface(self) -> tuple[int, ...]:
        """The ids before the call, if one is made in any case."""
        chat = self.loaded.chat
        return chat.ids(chat.call_format.preface) if self.choice not in ("auto", "none") else ()

    @property
    def form(self) -> Form | None:
        """The form of the reply, or None if it is words alone or the template marks no optional call."""
        style = self.loaded.chat.call_format
        named = [tool for tool in self.tools if self.choice in ("auto", *FORCED, tool["function"]["name"])]
        form = Form(style.schema(named), unknown=False) if named else None
        if form is None or self.choice != "auto":
            return form
        return replace(form, after=style.marker, forced=False) if style.marker else None

    def read(self, message: AIMessage) -> AIMessage:
        """Return a reply with its call in `tool_calls`, and the words before it as content."""
        text = str(message.text)
        found = self.loaded.chat.call_format.read(text) if self.choice != "none" else None
        if found is None or found[1] not in [tool["function"]["name"] for tool in self.tools]:
            return message
        words, name, arguments = found
        # The same for the same request; a later call of the conversation has a longer prompt.
        id = call_id(f"{message.usage_metadata and message.usage_metadata['input_tokens']} {text}")
        call = ToolCall(name=name, args=arguments, id=id, type="tool_call")
        return message.model_copy(update={"content": words, "tool_calls": [call]})
