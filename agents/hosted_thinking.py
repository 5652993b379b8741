"""Thoughts of hosted models: their switch, their room in addition to a call's limit, and their place in streams.

Servers count thoughts against the limit of a reply, but our limits apply to the text alone. So a model gets extra room
as soon as it shows a sign of thoughts.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from sottovoce.agents.convert import REASONING
from sottovoce.core.any_types import Keywords
from sottovoce.core.errors import UsageError
from sottovoce.core.thoughts import Own, Parts, most_thoughts, split

AnyMessage = TypeVar("AnyMessage", AIMessage, AIMessageChunk)

MORE = 4
"""How many times the room a reply gets that its thoughts left without a text."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""The fields of LangChain's chat models for the length of a reply: most classes', OpenRouter's, Google's, Ollama's."""
LEAST_BUDGET = 1024
"""The least budget that Anthropic accepts."""
EFFORTS = ((1024, "low"), (4096, "medium"))
"""Efforts up to a number of tokens; above them it is high."""
OPENAI = re.compile(r"\bopenai\.(?:azure\.)?com\b")


@dataclass
class Thinker:
    """Knowledge of a run about the thoughts of a hosted model."""

    most_thoughts: int = 0
    """Tokens of its thoughts beside those of the text, or 0 if it has shown none."""
    opened: bool = False
    """True if its prompt opens the thoughts, so that only their end is marked."""


def switch(model: BaseChatModel, wish: bool | int) -> dict[str, Keywords] | None:
    """Return the fields of a model that turn its thoughts on or off, or None if its class has none for that.

    LangChain's profile of a model, where there is one, knows whether it thinks, and its levels of effort.
    """
    fields, profile = type(model).model_fields, model.profile or {}
    thinks, levels = profile.get("reasoning_output"), profile.get("reasoning_effort_levels") or []
    on, most = bool(wish), most_thoughts(wish)
    if thinks is False:
        return None if on else {}
    effort = "medium" if wish is True else next((word for limit, word in EFFORTS if most <= limit), "high")
    effort = effort if on else "none"
    if levels and effort not in levels:
        effort = levels[-1] if on else ""
    by_effort = {"reasoning_effort": effort} if effort and "reasoning_effort" in fields else None
    if "thinking" in fields:  # Anthropic
        budget = {"type": "enabled", "budget_tokens": max(most, LEAST_BUDGET)} if on else {"type": "disabled"}
        return by_effort if on and "xhigh" in levels else {"thinking": budget}  # those with this level take no budget
    if "thinking_budget" in fields:  # Google
        shown = {"include_thoughts": on}
        if levels:
            return by_effort and {**by_effort, **shown}
        return {"thinking_budget": -1 if wish is True else most, **shown}
    if "num_predict" in fields:  # Ollama
        return {"reasoning": on}
    if "reasoning" in fields and "reasoning_effort" not in fields:  # OpenRouter
        limit = {"enabled": True} if wish is True else {"max_tokens": most}
        return {"reasoning": limit if on else {"effort": "none"}}
    if (body := _body(model, on=on, effort=effort)) is not None:
        return {"extra_body": {**(getattr(model, "extra_body", None) or {}), **body}}
    return by_effort


def _body(model: BaseChatModel, *, on: bool, effort: str) -> dict[str, Keywords] | None:
    """Return the fields that switch thoughts on a server of OpenAI's format, or None for OpenAI's own server."""
    provider = model._get_ls_params().get("ls_provider")
    address = str(getattr(getattr(model, "root_client", None), "base_url", ""))
    if "extra_body" not in type(model).model_fields or provider not in ("openai", "deepseek"):
        return None
    if provider == "deepseek":
        return {"thinking": {"type": "enabled" if on else "disabled"}}
    if not address or OPENAI.search(address):
        return None
    # vLLM, SGLang and llama.cpp pass these to the chat template, which ignores those that it does not know.
    efforts = {"reasoning_effort": effort} if on else {}
    return {"chat_template_kwargs": {"enable_thinking": on, "thinking": on, **efforts}}


def check_switch(model: BaseChatModel, wish: bool | int | None, name: str) -> BaseChatModel:
    """Return the model if the setting `thinking` reaches it.

    Raises:
        UsageError: its class has no switch for thoughts, or its profile says that it never thinks or always does.
    """
    if wish is None or switch(model, wish) is not None:
        return model
    known = model.profile or {}
    why = f"{type(model).__name__} has no switch for thoughts"
    if known.get("reasoning_output") is False:
        why = "it does not think"
    elif levels := known.get("reasoning_effort_levels"):
        why = f"it always thinks; its levels of effort are {', '.join(levels)}"
    value = wish if type(wish) is int else "on" if wish else "off"
    raise UsageError(f"thinking is {value}, which does not reach model {name!r}: {why}; leave out thinking")


def limit_of(model: BaseChatModel) -> int | None:
    """Return a model's own limit of its replies in tokens, or None if it has none."""
    found = (getattr(model, name) for name in LIMITS if name in type(model).model_fields)
    return next((limit for limit in found if limit is not None), None)


def limited(
    model: BaseChatModel, options: dict[str, Keywords], limit: int
) -> tuple[BaseChatModel, dict[str, Keywords]]:
    """Return the model and the options of a call with a limit: the class's own field, since few read an option."""
    fields = [name for name in LIMITS if name in type(model).model_fields]
    field = next((name for name in fields if getattr(model, name) is not None), fields[0] if fields else "")
    if not field:
        return model, {**options, "max_tokens": limit}
    options = {name: value for name, value in options.items() if name != "max_tokens"}
    return (model if getattr(model, field) == limit else model.model_copy(update={field: limit})), options


def with_parts(config: RunnableConfig, own: Own, opened: bool) -> RunnableConfig:
    """Return a call's config whose streams show thoughts within the text as thoughts.

    LangChain hands a stream's chunks to LangGraph through a callback, whatever the model's class.
    """
    found = config.get("callbacks")

    def parted(handlers: list[BaseCallbackHandler]) -> list[BaseCallbackHandler]:
        return [_parted(each, own, opened=opened) for each in handlers]

    if isinstance(found, BaseCallbackManager):
        manager = found.copy()
        manager.handlers, manager.inheritable_handlers = map(parted, (found.handlers, found.inheritable_handlers))
        return {**config, "callbacks": manager}
    return {**config, "callbacks": parted(found)} if found else config


def _parted(handler: BaseCallbackHandler, own: Own, *, opened: bool) -> BaseCallbackHandler:
    """Return a stream's handler, such as LangGraph's for `messages`, with thoughts apart. Return others unchanged."""
    on_token, on_end, replies = handler.on_llm_new_token, handler.on_llm_end, dict[UUID, Parts]()
    if not isinstance(handler, _StreamingCallbackHandler) or iscoroutinefunction(on_token):
        return handler

    def hand_token(token: str, *, chunk: Any = None, run_id: UUID, **more: Any) -> Any:
        message = getattr(chunk, "message", None)
        if not isinstance(message, AIMessageChunk) or not isinstance(message.content, str):
            return on_token(token, chunk=chunk, run_id=run_id, **more)
        parts = replies.setdefault(run_id, Parts(own, opened=opened))
        thoughts, text = parts.add(message.content, last=message.chunk_position == "last")
        if text != message.content:
            apart = _apart(message, thoughts, text)
            chunk = ChatGenerationChunk(message=apart, generation_info=chunk.generation_info)
        return on_token(text, chunk=chunk, run_id=run_id, **more)

    def hand_end(response: LLMResult, **more: Any) -> Any:  # it shows replies of models that do not stream
        apart = [[_with_thoughts(generation, own) for generation in choices] for choices in response.generations]
        return on_end(response.model_copy(update={"generations": apart}), **more)

    ours: Any = copy(handler)  # Any: methods are replaced
    ours.on_llm_new_token, ours.on_llm_end = hand_token, hand_end
    return ours  # type: ignore[no-any-return]


def _with_thoughts(generation: Any, own: Own) -> Any:  # Any: of a chat model or not
    message = getattr(generation, "message", None)
    if not isinstance(message, AIMessage) or not isinstance(message.content, str):
        return generation
    thoughts, text = split(message.content, own)
    return ChatGeneration(message=_apart(message, thoughts, text)) if thoughts else generation


def _apart(message: AnyMessage, thoughts: str, text: str) -> AnyMessage:
    """Return a message or a piece of one with this text, and with these thoughts after its own."""
    more = message.additional_kwargs
    more = {**more, REASONING: f"{more.get(REASONING) or ''}{thoughts}"} if thoughts else more
    return message.model_copy(update={"content": text, "additional_kwargs": more})
