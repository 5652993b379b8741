"""A reply while the engine's thread makes it, read piece by piece from a thread or an event loop."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from sottovoce.errors import EngineError

if TYPE_CHECKING:
    from sottovoce.models import Engine, Reply, Request

Put = Callable[[str | None], None]
"""Takes the text so far whenever it grew, and None at the end."""


class Clock:
    """How long a caller will wait; None waits for ever."""

    def __init__(self, timeout: float | None) -> None:
        """Start now; `timeout` in seconds."""
        self._timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self, future: Future[Reply]) -> float | None:
        """Seconds left; a finished reply is read out, however late it is.

        Raises:
            TimeoutError: none are left.
        """
        if self._end is None or future.done():
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def late(self) -> EngineError:
        """The one line about a reply that did not come in time."""
        return EngineError(f"no reply within {self._timeout} s; raise `timeout` or lower `max_tokens`")


class Stream:
    """A running request; leaving the block cancels what still runs."""

    def __init__(self, engine: Engine, request: Request, timeout: float | None, *, in_pieces: bool = False) -> None:
        """Submit the request; only `in_pieces` has pieces. Errors: see `Engine.submit`."""
        self._texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._clock, self._future = Clock(timeout), _submitted(engine, request, self._texts.put if in_pieces else None)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._future.cancel()

    def pieces(self) -> Iterator[str]:
        """What is new, each time the text grew."""
        shown = 0
        while (text := self._next()) is not None:
            if len(text) > shown:  # a request that is tried again repeats itself
                yield text[shown:]
                shown = len(text)

    def reply(self) -> Reply:
        """Wait for the whole reply."""
        try:
            return self._future.result(self._clock.left(self._future))
        except TimeoutError as error:
            raise self._clock.late() from error

    def _next(self) -> str | None:
        try:
            return self._texts.get(timeout=self._clock.left(self._future))
        except (queue.Empty, TimeoutError) as error:
            raise self._clock.late() from error


class AsyncStream:
    """`Stream` without blocking the event loop."""

    def __init__(self, engine: Engine, request: Request, timeout: float | None, *, in_pieces: bool = False) -> None:
        """Submit the request; only `in_pieces` has pieces. Errors: see `Engine.submit`."""
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        loop, put = asyncio.get_running_loop(), self._texts.put_nowait
        self._clock = Clock(timeout)

        def soon(text: str | None) -> None:
            _call_soon(loop, put, text)

        self._future = _submitted(engine, request, soon if in_pieces else None)

    def __enter__(self) -> AsyncStream:
        return self

    def __exit__(self, *error: object) -> None:
        self._future.cancel()

    async def pieces(self) -> AsyncIterator[str]:
        """What is new, each time the text grew."""
        shown = 0
        while (text := await self._next()) is not None:
            if len(text) > shown:
                yield text[shown:]
                shown = len(text)

    async def reply(self) -> Reply:
        """Wait for the whole reply."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._future), self._clock.left(self._future))
        except TimeoutError as error:
            raise self._clock.late() from error

    async def _next(self) -> str | None:
        try:
            left = self._clock.left(self._future)  # first: a coroutine that is made must be awaited
            return await asyncio.wait_for(self._texts.get(), left)
        except TimeoutError as error:
            raise self._clock.late() from error


def _submitted(engine: Engine, request: Request, put: Put | None) -> Future[Reply]:
    future = engine.submit(request, put)
    if put is not None:
        future.add_done_callback(lambda _: put(None))
    return future


def _call_soon(loop: asyncio.AbstractEventLoop, put: Put, text: str | None) -> None:
    try:
        loop.call_soon_threadsafe(put, text)
    except RuntimeError:  # the loop was closed: nobody listens any more
        return
