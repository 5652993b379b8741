"""`HookedChatModel`: a LangChain chat model that runs a local model with a protocol.

Its messages are ordinary chat messages. The protocol encodes those that contain a heard message (see
`convert`), and a reply has the reference of its payload in `additional_kwargs["payload"]`. Tensors
never enter a LangChain message.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, model_validator

from sottovoce.agents import convert
from sottovoce.agents.convert import parts_of, to_turns
from sottovoce.agents.streaming import Stream
from sottovoce.agents.structured import Tools, bound, structured_output
from sottovoce.agents.thinking import Thoughts, reply_behind, request_for, skipped, thoughts_of
from sottovoce.channels import create
from sottovoce.channels.message import words
from sottovoce.channels.options import LONGEST_REPLY
from sottovoce.core.any_types import Keywords, Unimported, Untyped
from sottovoce.core.bounds import Size, Thinking
from sottovoce.core.errors import PayloadError, UsageError, nearest
from sottovoce.core.response_format import Form
from sottovoce.core.text import one_line
from sottovoce.core.thoughts import THOUGHTS, Markers
from sottovoce.prompts import TRAINED

if TYPE_CHECKING:
    from sottovoce.channels.message import Turn
    from sottovoce.channels.payload import Payload
    from sottovoce.channels.protocol import Prompt, Protocol
    from sottovoce.channels.store import PayloadRef, PayloadStore
    from sottovoce.models import LoadedModel, Reply, Request, Sampling

WORDS = "nl"
SMALL = 1_000_000_000
"""Parameters below which a model is small: it would copy a request for a marked line, so it is asked for a sentence."""


STREAMING = "streaming"
"""An old argument of LangChain's models; it has no effect here, since every call can stream."""
OF_ENGINES = {"memory": (None,), "exact": (None, False)}
"""Fields that an engine is made with, and their values that a loaded model's engine may have anyway."""
OF_CALLS = (
    *("temperature", "top_p", "top_k", "repetition_penalty", "max_tokens", "seed", "stop"),
    *("speaks", "silent", "thinking", "prefill", "response_format", "tools", "tool_choice"),
)
CACHED = ("loaded", "channel", "payloads")
"""Properties that a copy computes for itself, from fields that may be others."""


class HookedChatModel(BaseChatModel):
    """A local causal language model that hears and speaks by a protocol.

    Values left None are the model's own defaults. A call may override temperature, top_p, top_k,
    repetition_penalty, max_tokens, seed and stop. It may also pass `speaks="nl"` (hear by the protocol, answer in
    words), `silent=True` (no words, if the protocol needs none), `thinking=False` (no thoughts), `prefill` (text or
    content blocks, which the reply continues and does not include) and `response_format` (fields of a `Form`). Replies
    of a schema and tool calls: `with_structured_output` and `bind_tools`.

    The thoughts of a model that thinks are in `additional_kwargs["reasoning_content"]`, not in the text; their tokens
    count apart from `max_tokens`.
    """

    model: str = "bundled"
    """`bundled`, a pulled model, a folder, a GGUF file, or a hub id."""
    protocol: str = WORDS
    options: dict[str, Keywords] = Field(default_factory=dict)
    """Options of the protocol: compat, layers, inject, partial, ..."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    max_tokens: int = LONGEST_REPLY
    stop: list[str] | None = None
    seed: int | None = None
    """The seed of every call; None draws a new one each time."""
    timeout: float | None = None
    """Seconds after which a call is aborted and its resources are freed."""
    max_retries: int = 0
    """Accepted for compatibility with other chat models; a local model has no network errors to retry."""
    dtype: str = "auto"
    weights: str = "auto"
    device: str | dict[str, int | str] = "auto"
    """The device, as for `sottovoce.models.load`."""
    thinking: Thinking | None = None
    """True or False for thoughts before replies, or their maximum number of tokens; None is the default."""
    thinking_markers: tuple[str, str] | None = None
    """The markers that open and close its thoughts, if no known family has them."""
    brief: bool = False
    """True if its replies are so short that a model with a switch for thinking does not think by default."""
    share_thoughts: bool = False
    """True if others hear its thoughts: their payload then is the protocol's, and otherwise has statistics alone."""
    memory: Size | None = None
    """Bytes, or a size like "4GB", for keys and values; None is a share of the free memory."""
    exact: bool = False
    """Bitwise equal results whatever runs at the same time, at the cost of full batches; for float32 on a CPU.

    Agents of one model that differ in `memory` or `exact` share its weights but not its engine.
    """
    # Any: a LoadedModel; naming its type would import torch
    preloaded: Any = Field(default=None, repr=False, exclude=True)
    """A model that is already loaded, to use instead of loading `model`."""
    store: Unimported = Field(default=None, repr=False, exclude=True)
    """The store of payloads; None is the default folder."""
    # Any: HookedChatModels; the type would be recursive
    hearers: tuple[Any, ...] = Field(default=(), repr=False, exclude=True)
    """The models of the agents that will hear this one."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, arguments: Any) -> Any:  # Any: as it was given
        """Refuse unknown arguments, which LangChain's models silently ignore, and an engine besides a loaded one."""
        known = {*cls.model_fields, STREAMING, *(info.alias for info in cls.model_fields.values() if info.alias)}
        for name in arguments if isinstance(arguments, dict) else ():
            if name not in known:
                raise UsageError(f"{nearest(f'argument of {cls.__name__}:', name, known)}; did you mean that?")
        made = isinstance(arguments, dict) and arguments.get("preloaded") is not None
        if made and any(arguments.get(name) not in unset for name, unset in OF_ENGINES.items()):
            named = ", ".join(f"`{name}`" for name in OF_ENGINES)
            raise UsageError(f"{named} make an engine, and a loaded model has one; give them to `load`")
        return arguments

    @cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model, shared by all chat models with the same name."""
        from sottovoce.models import load

        _ = self.channel  # wrong options are refused before a model is loaded
        loaded: LoadedModel = self.preloaded or load(
            self.model,
            dtype=self.dtype,  # type: ignore[arg-type]  # checked by load
            weights=self.weights,  # type: ignore[arg-type]  # likewise
            device=self.device,
            memory=self.memory,
            exact=self.exact,
        )
        wish = None if self.thinking is None else self.thinking is not False
        if wish is None and self.brief and loaded.chat.switch:
            wish = False
        markers = Markers(*self.thinking_markers) if self.thinking_markers else None
        return loaded if wish is None and markers is None else loaded.thinking(wish, markers)

    @property
    def most_thoughts(self) -> int:
        """The limit of the thoughts before a reply, in tokens; 0 if the model does not think."""
        block = self.loaded.chat.block
        if block is None or not block.is_on:
            return 0
        return THOUGHTS if self.thinking in (None, True) else int(self.thinking)

    @property
    def pack(self) -> str | None:
        """The name of the prompt pack that the model was trained on; None for any model but the bundled one."""
        trained = TRAINED.get(self.model)
        return trained.pack if trained else None

    @property
    def wording(self) -> Literal["short", "sentence"]:
        """The wording of requests for answers; small models would copy a request for a marked line."""
        return "sentence" if self.loaded.parameters < SMALL else "short"

    @cached_property
    def channel(self) -> Protocol:
        """The protocol with its options."""
        return create(self.protocol, **self.options)

    @cached_property
    def payloads(self) -> PayloadStore:
        """The store in use."""
        from sottovoce.channels.store import PayloadStore

        return self.store or PayloadStore()

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

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return {**super()._get_ls_params(stop or self.stop, **kwargs), "ls_provider": convert.PROVIDER}

    def thinking_request(self, messages: Sequence[BaseMessage], **kwargs: Any) -> Request | None:
        """Return the engine's request for the thoughts before a reply; None if the call is not to think."""
        most = self.most_thoughts
        if not most or kwargs.get("thinking") is False or self._is_silent(**kwargs):
            return None
        record = self._recorder_of_thoughts(**kwargs).to_record(self.loaded)
        record = replace(record, cache=("words",) if record.cache else ())
        reply = self._longest(**kwargs) + len(self.loaded.chat.ids(words(parts_of(kwargs.get("prefill", "")))))
        tools = Tools.of(self.loaded, kwargs)
        prompt = self._prompt(messages, tools.loaded if tools else self.loaded)
        return request_for(prompt, self.loaded, self._sampling(**kwargs), most, record, reply)

    def request(
        self,
        messages: Sequence[BaseMessage],
        stop: list[str] | None = None,
        thoughts: Thoughts | None = None,
        **kwargs: Any,
    ) -> Request:
        """Return the engine's request for a chat, as a call would run it, behind the thoughts of the model."""
        from sottovoce.channels.message import Turn
        from sottovoce.models import Ids

        if unknown := sorted(kwargs.keys() - {*OF_CALLS}):
            raise UsageError(f"{nearest('argument of a call:', unknown[0], OF_CALLS)}; did you mean that?")
        start = Turn("assistant", parts_of(kwargs.get("prefill", "")))
        tools = Tools.of(self.loaded, kwargs)
        loaded = tools.loaded if tools else self.loaded
        spoken = self._spoken(**kwargs)
        silent = self._is_silent(**kwargs)
        prompt = self._prompt(messages, loaded).with_block(thoughts.block if thoughts else ())
        prompt = self.channel.with_prefill(prompt, self._with_readable_messages([start])[0], self.loaded, self._load)
        prompt = prompt.with_encoded(Ids(tools.preface)) if tools and tools.preface else prompt
        plain = prompt.request(
            self.loaded,
            0 if silent else self._longest(**kwargs),
            self._sampling(**kwargs),
            stop=tuple(stop or self.stop or ()),
            prefill=start.text,
            form=tools.form if tools else Form(**kwargs["response_format"]) if kwargs.get("response_format") else None,
        )
        hearers = [hearer.loaded for hearer in self.hearers]
        request = reply_behind(spoken.make_request(plain, self.loaded, hearers), self.loaded)
        if request.form is not None:
            self.loaded.engine.check(request)  # here, since the first format of a vocabulary takes a while
        return request

    def with_structured_output(
        self, schema: Untyped, *, include_raw: bool = False, **kwargs: Any
    ) -> Runnable[LanguageModelInput, Any]:
        """Return this model with replies of a pydantic class, a TypedDict or a JSON schema: see `structured`."""
        return structured_output(self, schema, include_raw, kwargs)

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Untyped = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with tools, of which a reply calls one at most: see `structured`."""
        return bound(self, tools, tool_choice, kwargs)

    def get_token_ids(self, text: str) -> list[int]:
        """Return a text as the model's own tokens."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        return list(self.loaded.chat.ids(text, plain=True))

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Sequence[Any] | None = None) -> int:
        """Return the number of positions of a prompt: its chat as the template writes it, and what it hears."""
        offered = [convert_to_openai_tool(tool) for tool in tools or ()]
        return self.request(messages, tools=offered, tool_choice="none").length

    def _prompt(self, messages: Sequence[BaseMessage], loaded: LoadedModel) -> Prompt:
        return self.channel.encode_prompt(self._with_readable_messages(to_turns(messages)), loaded, self._load)

    def _longest(self, **kwargs: Any) -> int:
        return self.max_tokens if kwargs.get("max_tokens") is None else kwargs["max_tokens"]

    def _is_silent(self, **kwargs: Any) -> bool:
        return bool(kwargs.get("silent")) and self._spoken(**kwargs).silent

    def _recorder_of_thoughts(self, **kwargs: Any) -> Protocol:
        """Return the protocol that records thoughts: words if nobody hears them, or if they carry no more."""
        spoken = self._spoken(**kwargs)
        if self.share_thoughts and not spoken.averages and spoken.carries_words:
            return spoken
        return create(WORDS, compat=self.channel.compat)

    def _load(self, ref: PayloadRef) -> Payload:
        return ref.load(self.store)

    def unread(self, turns: Sequence[Turn]) -> tuple[str, ...]:
        """Return a note on each message of a prompt that was read in words, since its payload is lost."""
        parts = [part for turn in turns for part in turn.parts if not isinstance(part, str)]
        heard = [part.message for part in parts if not part.in_public]
        notes = dict[str, None]()
        for message in heard:
            try:
                _ = message.latent and self._load(message.latent)
            except PayloadError:
                notes[f"read {message.agent} of round {message.round + 1} in words: its payload is lost"] = None
        return tuple(notes)

    def _with_readable_messages(self, turns: Sequence[Turn]) -> list[Turn]:
        """Return the turns, with messages of lost payloads as words if the store or a protocol of words allows it."""
        from sottovoce.channels.message import with_readable_payloads

        told = self.store is not None and self.store.on_missing == "words"
        return with_readable_payloads(turns, self._load, in_words=told or not self.channel.latent)

    def _spoken(self, **kwargs: Any) -> Protocol:
        """Return the protocol of a reply: the model's own, or words."""
        if kwargs.get("speaks") in (None, self.protocol):
            return self.channel
        return create(kwargs["speaks"], compat=self.channel.compat)

    def _sampling(self, **kwargs: Any) -> Sampling:
        names = ("temperature", "top_p", "top_k", "repetition_penalty")
        asked = {name: kwargs[name] if kwargs.get(name) is not None else getattr(self, name) for name in names}
        seed = kwargs["seed"] if kwargs.get("seed") is not None else self.seed
        set_ = {name: value for name, value in asked.items() if value is not None}
        own = self._spoken(**kwargs).sampling(self.loaded)
        return replace(own, **set_, seed=secrets.randbits(63) if seed is None else seed)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        thoughts = self._think(messages, **kwargs)
        with Stream(self.loaded.engine, self.request(messages, stop, thoughts, **kwargs), self.timeout) as stream:
            return convert.result(self._message(stream.reply(), thoughts, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        # Files and the tokenizer would block the event loop.
        thoughts = await self._athink(messages, **kwargs)
        request = await asyncio.to_thread(self.request, messages, stop, thoughts, **kwargs)
        with Stream(self.loaded.engine, request, self.timeout) as stream:
            return convert.result(await asyncio.to_thread(self._message, await stream.areply(), thoughts, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        thoughts = self._think(messages, **kwargs)
        request = self.request(messages, stop, thoughts, **kwargs)
        in_pieces = not kwargs.get("tools")  # a call may follow any words
        with Stream(self.loaded.engine, request, self.timeout, in_pieces=in_pieces) as stream:
            shown = ""
            for piece in stream.pieces():
                shown, chunk = shown + piece, convert.chunk(piece)
                if run_manager:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
            yield convert.last_chunk(self._message(stream.reply(), thoughts, **kwargs), shown)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        thoughts = await self._athink(messages, **kwargs)
        request = await asyncio.to_thread(self.request, messages, stop, thoughts, **kwargs)
        in_pieces = not kwargs.get("tools")
        with Stream(self.loaded.engine, request, self.timeout, in_pieces=in_pieces) as stream:
            shown = ""
            async for piece in stream.apieces():
                shown, chunk = shown + piece, convert.chunk(piece)
                if run_manager:
                    await run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
            message = await asyncio.to_thread(self._message, await stream.areply(), thoughts, **kwargs)
            yield convert.last_chunk(message, shown)

    def _think(self, messages: list[BaseMessage], **kwargs: Any) -> Thoughts | None:
        """Return the thoughts before a reply, or what stands in their place; None if nothing does."""
        if (request := self.thinking_request(messages, **kwargs)) is None:
            return None if self._is_silent(**kwargs) else skipped(self.loaded)
        with Stream(self.loaded.engine, request, self.timeout) as stream:
            return thoughts_of(stream.reply(), self.loaded, self._recorder_of_thoughts(**kwargs))

    async def _athink(self, messages: list[BaseMessage], **kwargs: Any) -> Thoughts | None:
        if (request := await asyncio.to_thread(self.thinking_request, messages, **kwargs)) is None:
            return None if self._is_silent(**kwargs) else skipped(self.loaded)
        with Stream(self.loaded.engine, request, self.timeout) as stream:
            reply = await stream.areply()
            return thoughts_of(reply, self.loaded, self._recorder_of_thoughts(**kwargs))

    def _message(self, reply: Reply, thoughts: Thoughts | None, **kwargs: Any) -> AIMessage:
        """Return the reply as a LangChain message, after storing its payload and that of its thoughts."""
        payload = self._spoken(**kwargs).record_reply(reply, self.loaded)
        heat = self._sampling(**kwargs).temperature
        note = self._latent_steps(payload)
        ref = self.payloads.put(thoughts.payload) if thoughts and thoughts.payload else None
        message = convert.message(reply, payload, self.payloads.put(payload), heat, note, thoughts, ref)
        tools = Tools.of(self.loaded, kwargs)
        return tools.read(message) if tools else message

    def _latent_steps(self, payload: Payload) -> str:
        """Return a note on latent steps for readers: the tokens nearest to them, which nobody hears."""
        if (found := payload.tensors.get("thought_ids")) is None or not len(found):
            return ""
        text = self.loaded.detokenizer(special=True).text(tuple(found.tolist()))
        return f"thinks {len(found)} steps; the nearest tokens, which nobody hears: {one_line(text)!r}"
