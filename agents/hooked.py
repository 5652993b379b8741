"""`HookedChatModel`: LangChain's face of a local model.

Its messages are ordinary chat messages. The protocol encodes those that contain a heard message (see `convert`), and a
reply has the reference of its payload in `additional_kwargs["payload"]`. Tensors never enter a LangChain message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, model_validator

from sottovoce.agents import convert
from sottovoce.agents.ask import Ask
from sottovoce.agents.convert import parts_of, to_turns
from sottovoce.agents.local import CACHED, SAMPLED, LocalModel
from sottovoce.agents.structured import Tools, bound, structured_output
from sottovoce.channels.message import Message
from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.event_loop import iterate, off_loop, wait
from sottovoce.core.response_format import Form

OF_ENGINES = {"memory": (None,), "exact": (None, False)}
"""Fields that an engine is made with, and their values that a loaded model's engine may have anyway."""
OF_CALLS = (
    *(*SAMPLED, "max_tokens", "seed", "stop"),
    *("speaks", "silent", "thinking", "prefill", "response_format", "tools", "tool_choice"),
)


class HookedChatModel(LocalModel, BaseChatModel):
    """A local causal language model that hears and speaks by a protocol.

    Values left None are the model's own defaults. A call may override temperature, top_p, top_k,
    repetition_penalty, max_tokens, seed and stop. It may also pass `speaks="nl"` (hear by the protocol, answer in
    words), `silent=True` (no words, if the protocol needs none), `thinking=False` (no thoughts), `prefill` (text or
    content blocks, which the reply continues and does not include) and `response_format` (fields of a `Form`). Replies
    of a schema and tool calls: `with_structured_output` and `bind_tools`.

    The thoughts of a model that thinks are in `additional_kwargs["reasoning_content"]`, not in the text; their tokens
    count apart from `max_tokens`.
    """

    model_config = ConfigDict(extra="ignore")

    max_retries: int = 0
    """Accepted for compatibility with other chat models; a local model has no network errors to retry."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, arguments: Any) -> Any:  # Any: as it was given
        """Refuse unknown arguments, which LangChain's models silently ignore, and an engine besides a loaded one."""
        # "streaming" is an old argument of LangChain's models, without effect here: every call can stream
        known = {*cls.model_fields, "streaming", *(info.alias for info in cls.model_fields.values() if info.alias)}
        for name in arguments if isinstance(arguments, dict) else ():
            if name not in known:
                raise UsageError(nearest(f"argument of {cls.__name__}:", name, known))
        made = isinstance(arguments, dict) and arguments.get("preloaded") is not None
        if made and any(arguments.get(name) not in unset for name, unset in OF_ENGINES.items()):
            named = ", ".join(f"`{name}`" for name in OF_ENGINES)
            raise UsageError(f"{named} configure an engine, and a loaded model has one; pass them to `load`")
        if made and arguments.get("cache"):
            raise UsageError("`cache` needs a model's name as key, and a loaded one may be any; name it in `model`")
        return {**arguments, "cache": False} if made else arguments

    def __copy__(self) -> Self:
        """Return a copy that shares the loaded model, by its name or as the field `preloaded`."""
        copied = super().__copy__()
        for name in CACHED:
            vars(copied).pop(name, None)
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a deep copy of all but the weights and the store, which it shares."""
        shared = {id(each): each for each in (self.preloaded, self.store) if each is not None}
        return super(HookedChatModel, self.__copy__()).__deepcopy__({**(memo or {}), **shared})

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle: weights are named by it, not included.

        Raises:
            UsageError: the weights have no name, since the model was given loaded.
        """
        if self.preloaded is not None:
            raise UsageError("a chat model of a loaded model cannot be pickled; name the model in its field `model`")
        state = super().__getstate__()
        return {**state, "__dict__": {name: each for name, each in vars(self).items() if name not in CACHED}}

    @property
    def _llm_type(self) -> str:
        return "sottovoce"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include={*LocalModel.model_fields})

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        """Return the key of cached replies: all values that affect a reply, and the store of its payloads."""
        loaded, chat = self.loaded, self.loaded.chat
        known = [
            self._identifying_params,
            loaded.weights_key,
            loaded.format,
            loaded.vocabulary_key,
            chat.tokenizer.chat_template,
        ]
        known += [loaded.sampling, loaded.stop_ids, self.payloads.place]
        known += [hearer.loaded.table.key for hearer in self.hearers]
        return f"{super()._get_llm_string(stop, **kwargs)} {known}"  # the former has a call's `stop` for ours

    async def _agenerate_with_cache(self, *args: Any, **kwargs: Any) -> ChatResult:
        await off_loop(getattr, self, "loaded")  # a cache's key needs it, and loading it would block the event loop
        return await super()._agenerate_with_cache(*args, **kwargs)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return {**super()._get_ls_params(stop or self.stop, **kwargs), "ls_provider": convert.PROVIDER}

    def with_structured_output(
        self, schema: Untyped, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return this model with replies of a pydantic class, a TypedDict or a JSON schema: see `structured`."""
        return structured_output(self, schema, include_raw, kwargs)

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Untyped = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with tools. A reply calls at most one (see `structured`)."""
        return bound(self, tools, tool_choice, kwargs)

    def get_token_ids(self, text: str) -> list[int]:
        """Return a text as the model's own tokens."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        return list(self.loaded.chat.ids(text, plain=True))

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Sequence[Any] | None = None) -> int:
        """Return the number of positions of a prompt: its chat as rendered by the template, and the heard messages."""
        offered = [convert_to_openai_tool(tool) for tool in tools or ()]
        ask = self.to_ask(messages, tools=offered, tool_choice="none")
        return self.request(ask, self.encode(ask)).length

    def to_ask(self, messages: Sequence[BaseMessage], stop: list[str] | None = None, **kwargs: Any) -> Ask:
        """Return a call of LangChain as the request to an agent.

        Raises:
            UsageError: an argument is unknown, or a message has a role or a block that a text model cannot read.
        """
        if unknown := sorted(kwargs.keys() - {*OF_CALLS}):
            raise UsageError(nearest("argument of a call:", unknown[0], OF_CALLS))
        return Ask(
            "",
            tuple(to_turns(messages)),
            Form(**kwargs["response_format"]) if kwargs.get("response_format") else None,
            parts_of(kwargs.get("prefill", "")),
            tuple(stop or ()),
            kwargs.get("max_tokens"),
            kwargs.get("temperature"),
            kwargs.get("speaks"),
            bool(kwargs.get("silent")),
            kwargs.get("thinking") is not False,
            {name: kwargs.get(name) for name in SAMPLED[1:]},
            Tools.of(self.loaded, kwargs) if kwargs.get("tools") else None,
            seed=kwargs.get("seed"),
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return wait(self._agenerate(messages, stop, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        ask = await self._ask(messages, stop, kwargs)
        return convert.result(self._face(await self.reply(ask), ask))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in iterate(self._astream(messages, stop, **kwargs)):
            if run_manager and not chunk.message.response_metadata:  # the last one has it, and a text of its own
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        ask, texts = await self._ask(messages, stop, kwargs), asyncio.Queue[str | None]()
        loop = asyncio.get_running_loop()

        def grew(text: str) -> None:
            loop.call_soon_threadsafe(texts.put_nowait, text)

        task, shown = asyncio.create_task(self.reply(ask, None if ask.tools else grew)), ""
        task.add_done_callback(lambda _: texts.put_nowait(None))
        try:
            while (text := await texts.get()) is not None:
                if len(text) > len(shown):  # a request that the engine retries repeats its text
                    shown, chunk = text, convert.chunk(text[len(shown) :])
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            yield convert.last_chunk(self._face(await task, ask), shown)
        finally:
            task.cancel()

    async def _ask(self, messages: list[BaseMessage], stop: list[str] | None, options: Mapping[str, Any]) -> Ask:
        """Return a call's request. Tools need the model's template, and loading it would block the event loop."""
        if options.get("tools") and "loaded" not in vars(self):
            await asyncio.to_thread(getattr, self, "loaded")
        return self.to_ask(messages, stop, **options)

    def _face(self, message: Message, ask: Ask) -> AIMessage:
        """Return a reply as a LangChain message, with its tool call."""
        reply = convert.to_langchain(message, self.loaded.name, ask.protocol or self.protocol)
        return ask.tools.read(reply) if ask.tools else reply
