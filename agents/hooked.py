"""`HookedChatModel`: a LangChain chat model that runs a local model by a protocol.

Its messages are ordinary chat messages; those that hold a heard message (see `convert`) are read by
the protocol, and a reply brings the reference of its payload in `additional_kwargs["payload"]`.
Tensors never enter a LangChain message.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from sottovoce.agents.convert import to_turns
from sottovoce.channels.message import LONGEST_REPLY, PayloadRef
from sottovoce.errors import EngineError

if TYPE_CHECKING:
    from sottovoce.channels.payload import Payload
    from sottovoce.channels.protocol import Protocol
    from sottovoce.channels.store import PayloadStore
    from sottovoce.models import Mind, Reply, Request, Sampling

WORDS = "nl"


class HookedChatModel(BaseChatModel):
    """A local causal language model, heard and spoken to by a protocol.

    Values left None are the model's own defaults. A call may override temperature, top_p, top_k,
    repetition_penalty, max_tokens, seed, stop, and set `speaks="nl"`: hear by the protocol, answer in words.
    """

    model: str = "bundled"
    """`bundled`, a folder, or a hub id."""
    protocol: str = WORDS
    options: dict[str, Any] = Field(default_factory=dict)  # Any: each protocol's own
    """Options of the protocol: compat, layers, inject, partial, ..."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    max_tokens: int = LONGEST_REPLY
    stop: list[str] | None = None
    seed: int | None = None
    """Of every call; None draws a new one each time."""
    timeout: float | None = None
    """Seconds after which a call is given up and its row freed."""
    max_retries: int = 0
    """Accepted as other chat models do; a local model has no network to retry."""
    dtype: str = "auto"
    device: str = "auto"
    loaded: Any = Field(default=None, repr=False, exclude=True)  # Any: a Mind; naming its type would import torch
    """A mind that is in memory already, instead of loading `model`."""
    store: Any = Field(default=None, repr=False, exclude=True)  # Any: a PayloadStore, as above
    """Where payloads go and come from; None is the default folder."""
    hearers: tuple[Any, ...] = Field(
        default=(), repr=False, exclude=True
    )  # Any: HookedChatModels, for recursion's sake
    """The models of the agents that will hear this one."""

    @cached_property
    def mind(self) -> Mind:
        """The loaded model; shared by all that name the same one."""
        from sottovoce.models import load

        return self.loaded or load(self.model, dtype=self.dtype, device=self.device)  # type: ignore[arg-type]  # checked by load

    @cached_property
    def channel(self) -> Protocol:
        """The protocol with its options."""
        from sottovoce.channels.registry import create

        return create(self.protocol, **self.options)

    @cached_property
    def payloads(self) -> PayloadStore:
        """The store in use."""
        from sottovoce.channels.store import PayloadStore

        return self.store or PayloadStore()

    @property
    def _llm_type(self) -> str:
        return "sottovoce"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = LangSmithParams(
            ls_provider="sottovoce",
            ls_model_name=str(kwargs.get("model", self.model)),
            ls_model_type="chat",
            ls_max_tokens=kwargs.get("max_tokens", self.max_tokens),
        )
        temperature = kwargs.get("temperature", self.temperature)
        if temperature is not None:
            params["ls_temperature"] = temperature
        if stop or self.stop:
            params["ls_stop"] = stop or self.stop
        return params

    def request(self, messages: Sequence[BaseMessage], stop: list[str] | None = None, **kwargs: Any) -> Request:
        """Lower a chat to the engine's request, as a call would run it."""
        from sottovoce.channels.protocol import Speech
        from sottovoce.channels.store import find

        speech = Speech(
            kwargs.get("max_tokens") or self.max_tokens,
            self._sampling(**kwargs),
            tuple(stop or self.stop or ()),
            tuple(hearer.mind for hearer in self.hearers),
        )
        prompt = self.channel.hear(to_turns(messages), self.mind, lambda ref: find(ref, self.store))
        return self._spoken(**kwargs).speak(prompt, self.mind, speech)

    def _spoken(self, **kwargs: Any) -> Protocol:
        """The protocol a reply is spoken by: the model's own, or words."""
        if kwargs.get("speaks") in (None, self.protocol):
            return self.channel
        from sottovoce.channels.registry import create

        return create(kwargs["speaks"], compat=self.channel.compat)

    def _sampling(self, **kwargs: Any) -> Sampling:
        names = ("temperature", "top_p", "top_k", "repetition_penalty")
        asked = {name: kwargs[name] if kwargs.get(name) is not None else getattr(self, name) for name in names}
        seed = kwargs["seed"] if kwargs.get("seed") is not None else self.seed
        set_ = {name: value for name, value in asked.items() if value is not None}
        return replace(self.mind.sampling, **set_, seed=secrets.randbits(63) if seed is None else seed)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        future = self.mind.engine.submit(self.request(messages, stop, **kwargs))
        return _result(self._message(self._wait(future), **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        # Files and the tokenizer would block the event loop.
        request = await asyncio.to_thread(self.request, messages, stop, **kwargs)
        try:
            reply = await asyncio.wait_for(self.mind.engine.arun(request), self.timeout)
        except TimeoutError as error:
            raise self._late() from error
        return _result(await asyncio.to_thread(self._message, reply, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        future = self._started(self.request(messages, stop, **kwargs), texts.put)
        deadline = self._deadline()
        try:
            shown = ""
            while (text := self._next(texts, future, deadline)) is not None:
                if chunk := _grown(shown, text):
                    shown = text
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            yield _last(self._message(self._wait(future), **kwargs), shown)
        finally:
            future.cancel()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        texts: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        request = await asyncio.to_thread(self.request, messages, stop, **kwargs)
        future = self._started(request, lambda text: _call_soon(loop, texts.put_nowait, text))
        deadline = self._deadline()
        try:
            shown = ""
            while (text := await self._anext(texts, future, deadline)) is not None:
                if chunk := _grown(shown, text):
                    shown = text
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            reply = future.result()
            yield _last(await asyncio.to_thread(self._message, reply, **kwargs), shown)
        finally:
            future.cancel()

    def _started(self, request: Request, put: Callable[[str | None], None]) -> Future[Reply]:
        """Submit with a stream of texts that ends with None."""
        future = self.mind.engine.submit(request, put)
        future.add_done_callback(lambda _: put(None))
        return future

    def _deadline(self) -> float | None:
        return None if self.timeout is None else time.monotonic() + self.timeout

    def _next(self, texts: queue.SimpleQueue[str | None], future: Future[Reply], deadline: float | None) -> str | None:
        try:
            return texts.get(timeout=_left(future, deadline))
        except (queue.Empty, TimeoutError) as error:
            raise self._late() from error

    async def _anext(
        self, texts: asyncio.Queue[str | None], future: Future[Reply], deadline: float | None
    ) -> str | None:
        try:
            left = _left(future, deadline)
            return await asyncio.wait_for(texts.get(), left)
        except TimeoutError as error:
            raise self._late() from error

    def _wait(self, future: Future[Reply]) -> Reply:
        try:
            return future.result(self.timeout)
        except TimeoutError as error:
            future.cancel()
            raise self._late() from error

    def _late(self) -> EngineError:
        return EngineError(f"no reply within {self.timeout} s; raise `timeout` or lower `max_tokens`")

    def _message(self, reply: Reply, **kwargs: Any) -> AIMessage:
        """The reply as a LangChain message; its payload is stored before the reference leaves."""
        payload = self._spoken(**kwargs).record(reply, self.mind)
        ref = self.payloads.put(payload)
        return AIMessage(
            content=payload.label.text,
            additional_kwargs={
                "payload": _plain(ref),
                "stats": _summary(payload, self._sampling(**kwargs).temperature),
            },
            response_metadata={
                "model_name": self.mind.name,
                "model_provider": "sottovoce",
                "finish_reason": reply.finish,
                "protocol": payload.label.protocol,
            },
            usage_metadata=UsageMetadata(
                input_tokens=reply.usage.prompt,
                output_tokens=reply.usage.new,
                total_tokens=reply.usage.prompt + reply.usage.new,
            ),
        )


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _grown(shown: str, text: str) -> ChatGenerationChunk | None:
    """A chunk of what is new; nothing where a restarted request repeats itself."""
    if len(text) <= len(shown):
        return None
    return ChatGenerationChunk(message=AIMessageChunk(content=text[len(shown) :]))


def _last(message: AIMessage, shown: str) -> ChatGenerationChunk:
    rest = message.text[len(shown) :]
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=rest,
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
            chunk_position="last",
        )
    )


def _left(future: Future[Reply], deadline: float | None) -> float | None:
    """Seconds that a stream may still wait; a finished reply is read out, however late it is."""
    if deadline is None or future.done():
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _call_soon(loop: asyncio.AbstractEventLoop, put: Callable[[str | None], None], text: str | None) -> None:
    try:
        loop.call_soon_threadsafe(put, text)
    except RuntimeError:  # the loop was closed: nobody listens any more
        return


def _plain(ref: PayloadRef) -> dict[str, Any]:
    return {**asdict(ref), "layers": list(ref.layers)}


def _summary(payload: Payload, temperature: float) -> dict[str, float]:
    """Small numbers for the state and the transcript: plain floats, rounded as they are shown."""
    entropy = payload.tensors["entropy"]
    return {
        "temperature": float(temperature),
        "mean_entropy": round(float(entropy.mean()), 4) if len(entropy) else 0.0,
        "max_entropy": round(float(entropy.max()), 4) if len(entropy) else 0.0,
    }
