"""Servers of OpenAI's format: the fields they add to OpenAI's own, and a bound on the size of a reply."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage

from sottovoce.agents.convert import ABSURD, REASONING, is_count
from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import SottovoceError

SPENT = re.compile(r"insufficient_quota|billing_hard_limit_reached")
"""Servers' words for a quota that no waiting refills; its status is 429 too."""
MOST_BODY, MOST_EMPTY = 32_000_000, 1_000_000
"""Most bytes of a decompressed body, with all that stands around its text, and of compressed ones that yield none."""


def extended(model: BaseChatModel) -> BaseChatModel:
    """Return a model with bounds on its replies.

    If its class is of OpenAI's format, replies also keep all fields of the server.
    """
    kind = type(model)
    for client in (getattr(model, "root_client", None), getattr(model, "root_async_client", None)):
        http = getattr(client, "_client", None)  # of httpx, or of its successor httpx2
        hooks = getattr(http, "event_hooks", {}).get("response")
        if hooks is not None and not {_on_reply, _on_async_reply} & {*hooks}:  # models share their clients
            hooks.append(_on_async_reply if hasattr(http, "aclose") else _on_reply)
    if hasattr(kind, "_create_chat_result") and hasattr(kind, "_convert_chunk_to_generation_chunk"):  # OpenAI's format
        kept = type(kind.__name__, (_KeepsMore, kind), {"__module__": kind.__module__})
        object.__setattr__(model, "__class__", kept)
    return model


class _KeepsMore:
    """A mixin that keeps the fields that servers add to OpenAI's format, and drops an impossible usage.

    OpenAI's own client drops thoughts and streamed refusals, and fails if a usage holds a text (langchain-openai 1.7).
    """

    def _create_chat_result(self, response: Any, *args: Untyped, **kwargs: Untyped) -> Any:
        plain = response if isinstance(response, dict) else {}
        if hasattr(response, "model_dump"):
            plain = response.model_dump(warnings=False)
        usage, notes = _usable(plain.get("usage"))
        if usage is None and plain.get("usage") is not None:
            response = {**plain, "usage": None} if response is plain else response.model_copy(update={"usage": None})
        made = super()._create_chat_result(response, *args, **kwargs)  # type: ignore[misc]  # of the client
        for choice, generation in zip(plain.get("choices") or [], made.generations, strict=False):
            _keep(choice.get("message"), generation.message, notes)
        return made

    def _convert_chunk_to_generation_chunk(self, chunk: dict[str, Untyped], *args: Untyped, **kwargs: Untyped) -> Any:
        choice: Any = next(iter(chunk.get("choices") or []), {})
        usage, notes = _usable(chunk.get("usage"))
        if choice and not choice.get("finish_reason"):  # a sum so far, which LangChain would add to the last one
            usage = None
        made = super()._convert_chunk_to_generation_chunk({**chunk, "usage": usage}, *args, **kwargs)  # type: ignore[misc]  # likewise
        if made:
            _keep(choice.get("delta"), made.message, notes)
        return made


def _usable(usage: Any) -> tuple[Any, list[str]]:
    """Return the usage of a server in OpenAI's format, None if it is unknown, and a note if it cannot be."""
    details = ("prompt_tokens_details", "completion_tokens_details")
    groups = [usage or {}, *(usage.get(name) or {} for name in details if isinstance(usage, Mapping))]
    if not all(isinstance(group, Mapping) for group in groups):
        return None, [ABSURD]
    counts = [count for group in groups for name, count in group.items() if name.endswith("_tokens")]
    if not all(count is None or is_count(count) for count in counts):
        return None, [ABSURD]
    return (None if None in map(groups[0].get, ("prompt_tokens", "completion_tokens")) else usage), []


def _keep(source: Untyped, message: BaseMessage, notes: list[str]) -> None:
    """Keep thoughts and a refusal of a server's message, or of a piece of it, and notes on it."""
    more, source = message.additional_kwargs, source if isinstance(source, dict) else {}
    if notes:
        more["notes"] = notes
    for name in (REASONING, "reasoning"):
        if isinstance(source.get(name), str):
            more.setdefault(REASONING, source[name])
    if isinstance(source.get("reasoning_details"), list):
        more["reasoning_details"] = source["reasoning_details"]
    if isinstance(source.get("refusal"), str):
        more["refusal"] = source["refusal"]


def _on_reply(response: Any) -> None:
    """Bound how much of a reply an HTTP client reads, and stop its retries when a quota is spent."""
    _bound(response)
    if response.status_code == 429 and SPENT.search(response.read().decode(errors="replace")):
        response.headers["x-should-retry"] = "false"


async def _on_async_reply(response: Any) -> None:
    _bound(response)
    if response.status_code == 429 and SPENT.search((await response.aread()).decode(errors="replace")):
        response.headers["x-should-retry"] = "false"


def _bound(response: Any) -> None:
    """Bound a response's body while it is read, before and after decompression, since a small body may expand."""
    kind, counted = type(response), _counted(import_module(type(response).__module__.partition(".")[0]))
    stream = counted(response.stream, MOST_EMPTY)
    raw = kind(response.status_code, headers=response.headers, stream=stream, request=response.request)
    response.headers.pop("content-encoding", None)
    response.stream = counted(stream, MOST_BODY, raw)


@cache
def _counted(library: Any) -> type[Any]:
    """Return the class of bounded bodies for a library of HTTP, which accepts only its own streams."""

    class Counted(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]  # of the library
        def __init__(self, stream: Any, most: int, decompressed: Any = None) -> None:
            self.stream, self.left, self.decompressed = stream, most, decompressed

        def __iter__(self) -> Iterator[bytes]:
            for piece in self.decompressed.iter_bytes() if self.decompressed else self.stream:
                yield self.counted(piece)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self.decompressed.aiter_bytes() if self.decompressed else self.stream:
                yield self.counted(piece)

        def counted(self, piece: bytes) -> bytes:
            self.left -= len(piece)
            if self.left < 0:
                raise SottovoceError(f"its server's reply has no end within {MOST_BODY:,} bytes; it is not read")
            if self.decompressed:
                self.stream.left = MOST_EMPTY
            return piece

        def close(self) -> None:
            self.stream.close()

        async def aclose(self) -> None:
            await self.stream.aclose()

    return Counted
