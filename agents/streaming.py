"""Streaming of a reply while the engine generates it, read in pieces from a thread or an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from sottovoce.core.errors import LateReply

if TYPE_CHECKING:
    from sottovoce.models import Engine, Reply, Request

Result = TypeVar("Result")
Coming = Future[tuple[str | None, Any]]  # Any: the `Coming` after it
"""A future of the text so far, set each time it grows, or None at the end; with it the next such future."""


class Stream:
    """A running request; leaving the `with` block cancels it if it is unfinished."""

    def __init__(self, engine: Engine, request: Request, timeout: float | None, *, in_pieces: bool = False) -> None:
        """Submit the request. Errors: see `Engine.submit`.

        Args:
            engine: The engine that runs it.
            request: The request to run.
            timeout: Seconds after which it is aborted; None waits forever.
            in_pieces: Whether to report its text while it grows.
        """
        self._timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout
        self._first = self._next = _coming()
        self._future = engine.submit(request, self._grew if in_pieces else None)
        self._future.add_done_callback(lambda _: self._grew(None))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._future.cancel()

    def pieces(self) -> Iterator[str]:
        """Yield the new text each time the reply grows."""
        (text, after), shown = self._awaited(self._first), 0
        while text is not None:
            if len(text) > shown:  # a request that the engine retries repeats its text
                yield text[shown:]
                shown = len(text)
            text, after = self._awaited(after)

    async def apieces(self) -> AsyncIterator[str]:
        """Yield what `pieces` yields, without blocking the event loop."""
        (text, after), shown = await self._aawaited(self._first), 0
        while text is not None:
            if len(text) > shown:
                yield text[shown:]
                shown = len(text)
            text, after = await self._aawaited(after)

    def reply(self) -> Reply:
        """Wait for the whole reply and return it."""
        return self._awaited(self._future)

    async def areply(self) -> Reply:
        """Return what `reply` returns, without blocking the event loop."""
        return await self._aawaited(self._future)

    def _grew(self, text: str | None) -> None:
        now, self._next = self._next, _coming()
        now.set_result((text, self._next))

    def _awaited(self, future: Future[Result]) -> Result:
        try:
            return future.result(self._left())
        except TimeoutError as error:
            raise self._late() from error

    async def _aawaited(self, future: Future[Result]) -> Result:
        try:
            left = self._left()  # first: a coroutine that was created must be awaited
            return await asyncio.wait_for(asyncio.wrap_future(future), left)
        except TimeoutError as error:
            raise self._late() from error

    def _left(self) -> float | None:
        """Return the seconds left; None without a limit, or if the reply is finished: it is returned however late."""
        if self._end is None or self._future.done():
            return None
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError
        return left

    def _late(self) -> LateReply:
        return LateReply(f"no reply within {self._timeout:g} s; raise `timeout` or lower `max_tokens`")


def _coming() -> Coming:
    future: Coming = Future()
    future.set_running_or_notify_cancel()  # a waiter that stops must not cancel it
    return future
