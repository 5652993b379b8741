"""A reply while the engine's thread makes it, read piece by piece from a thread or an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from sottovoce.errors import LateReply

if TYPE_CHECKING:
    from sottovoce.models import Engine, Reply, Request

Result = TypeVar("Result")
Coming = Future[tuple[str | None, Any]]  # Any: the `Coming` after it
"""The text so far whenever it grew, and None at the end; with it what comes next."""


class Stream:
    """A running request; leaving the block cancels what still runs."""

    def __init__(self, engine: Engine, request: Request, timeout: float | None, *, in_pieces: bool = False) -> None:
        """Submit the request. Errors: see `Engine.submit`.

        Args:
            engine: Runs it.
            request: What to run.
            timeout: Seconds after which it is given up; None waits for ever.
            in_pieces: Whether its text is wanted while it grows.
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
        """What is new, each time the text grew."""
        (text, after), shown = self._awaited(self._first), 0
        while text is not None:
            if len(text) > shown:  # a request that is tried again repeats itself
                yield text[shown:]
                shown = len(text)
            text, after = self._awaited(after)

    async def apieces(self) -> AsyncIterator[str]:
        """`pieces` without blocking the event loop."""
        (text, after), shown = await self._aawaited(self._first), 0
        while text is not None:
            if len(text) > shown:
                yield text[shown:]
                shown = len(text)
            text, after = await self._aawaited(after)

    def reply(self) -> Reply:
        """Wait for the whole reply."""
        return self._awaited(self._future)

    async def areply(self) -> Reply:
        """`reply` without blocking the event loop."""
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
            left = self._left()  # first: a coroutine that is made must be awaited
            return await asyncio.wait_for(asyncio.wrap_future(future), left)
        except TimeoutError as error:
            raise self._late() from error

    def _left(self) -> float | None:
        """Seconds left; a finished reply is read out, however late it is."""
        if self._end is None or self._future.done():
            return None
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError
        return left

    def _late(self) -> LateReply:
        return LateReply(f"no reply within {self._timeout:g} s; raise `timeout` or lower `max_tokens`")


def _coming() -> Coming:
    future: Coming = Future()
    future.set_running_or_notify_cancel()  # who stops waiting for it must not cancel it
    return future
