"""The event loop on which coroutines run where none is running: a sync call of a graph, a notebook, a plain thread.

It runs in one thread of this process. Work that waits for files runs on it directly, but in a thread beside an
application's or a server's own loop, which must not wait for files.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, Thread
from typing import ParamSpec, TypeVar, cast
from weakref import WeakSet

T = TypeVar("T")
P = ParamSpec("P")

MOST_THREADS = 1024  # made when they are needed; asyncio's own limit is a few
_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of this process, by its id: a forked process needs one of its own."""
_waiting = WeakSet[asyncio.AbstractEventLoop]()


def wait(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine on our loop and return its result; the calling thread waits, and its context goes along.

    If the wait is interrupted, e.g. by Ctrl-C, the coroutine is cancelled.

    Raises:
        RuntimeError: the caller runs on our loop itself, which would wait forever.
    """
    loop = _ours()
    if _running() is loop:
        coroutine.close()
        raise RuntimeError("an act called a sync method of a model or graph; await the async one, or use a plain act")
    future = asyncio.run_coroutine_threadsafe(_outcome(coroutine), loop)
    try:
        result, error = future.result()
    finally:
        future.cancel()
    if error is not None:
        raise error
    return cast(T, result)


async def _outcome(coroutine: Coroutine[object, object, T]) -> tuple[T | None, Exception | None]:
    """Return the result or the error; a future would replace a TimeoutError by another, without its notes."""
    try:
        return await coroutine, None
    except Exception as error:
        return None, error


def iterate(items: AsyncIterator[T]) -> Generator[T]:
    """Yield the items of an async generator, which runs on our loop."""

    async def following() -> tuple[T, ...]:
        async for item in items:
            return (item,)
        return ()

    try:
        while found := wait(following()):
            yield found[0]
    finally:
        if (close := getattr(items, "aclose", None)) is not None:
            wait(close())


async def off_loop(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return what a function that waits for files returns, without blocking a loop that is not ours."""
    if asyncio.get_running_loop() in _waiting:
        return call(*args, **options)
    return await asyncio.to_thread(call, *args, **options)


def is_ours() -> bool:
    """Return True on our loop, where sync callers wait."""
    return asyncio.get_running_loop() is _loops.get(os.getpid())


def may_wait() -> None:
    """Say that the running loop belongs to this program, and may wait for files."""
    _waiting.add(asyncio.get_running_loop())


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _ours() -> asyncio.AbstractEventLoop:
    with _lock:
        if (loop := _loops.get(os.getpid())) is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS))  # a sync client waits in each
            _waiting.add(loop)
            Thread(target=loop.run_forever, name="sottovoce", daemon=True).start()
        return loop
