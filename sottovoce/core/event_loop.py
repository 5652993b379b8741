"""The one event loop of this process, on which our coroutines run: runs, sync calls of graphs, notebooks' cells.

It runs in one thread until the process ends, so clients keep their connections from one run to the next. Work that
waits for files runs directly on our loop. On an application's loop, which must not wait for files, it runs in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from threading import Event, Lock, Thread
from typing import Literal, ParamSpec, TypeVar

from sottovoce.core.errors import UsageError

T = TypeVar("T")
P = ParamSpec("P")

MOST_THREADS = 1024  # made when they are needed; asyncio's own limit is a few
LOOK = 1.0  # seconds; on Windows a Ctrl-C is seen only between two waits
FORKED = (
    "this process was forked from one that had used models before, and their threads and connections stay there; "
    "create worker processes by 'spawn' or 'forkserver', or use models only after the fork"
)
_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""The loop of this process, by its id: a forked process needs one of its own, and must not close its parent's."""
_users: dict[str, int] = {}
"""The first process that had connections, or torch's threads: this one, or one that it was forked from."""


def wait(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine on our loop, in the caller's context, and return its result; the calling thread waits.

    If the wait is interrupted, e.g. by Ctrl-C, the coroutine is cancelled, and has ended when the error is raised.

    Raises:
        RuntimeError: the caller runs on our loop itself, which would wait forever.
    """
    if is_ours():
        coroutine.close()
        raise RuntimeError(
            "an act called a sync method of a model or graph; await the async method, or use a plain act"
        )
    loop, tasks, ended = _ours(), list[asyncio.Task[T]](), Event()

    def start() -> None:
        tasks.append(loop.create_task(coroutine))
        tasks[0].add_done_callback(end)

    def end(task: asyncio.Task[T]) -> None:
        _ = task.cancelled() or task.exception()  # read, or an interrupted wait's would be reported as lost
        ended.set()

    def stop() -> None:
        if tasks:
            tasks[0].cancel()
        else:  # interrupted before it was to start
            coroutine.close()
            ended.set()

    try:
        loop.call_soon_threadsafe(start)
        while not ended.wait(LOOK):
            pass
    except BaseException:
        loop.call_soon_threadsafe(stop)
        ended.wait()
        raise
    return tasks[0].result()


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
    """Return the result of a function that waits for files, without blocking a loop that is not ours."""
    return call(*args, **options) if is_ours() else await asyncio.to_thread(call, *args, **options)


async def in_daemon(call: Callable[[], T]) -> T:
    """Return the result of a function that waits for a server or a person.

    It runs in a daemon thread, because a stop (Ctrl-C) or the end of the process would wait for asyncio's own threads.
    """
    result = Future[T]()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # the waiting task raises it; a task cannot raise StopIteration
            result.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)

    Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return await asyncio.wrap_future(result)


def is_ours() -> bool:
    """Return True on our loop."""
    try:
        return asyncio.get_running_loop() is _loops.get(os.getpid())
    except RuntimeError:  # none runs
        return False


def check_not_forked(resource: Literal["connections", "torch"]) -> None:
    """Check that this process is not a fork of one with connections or torch's threads, before it uses them itself.

    Both would use the same connections, and torch waits for threads that the fork lacks.

    Raises:
        UsageError: it is.
    """
    if _users.setdefault(resource, os.getpid()) != os.getpid():
        raise UsageError(FORKED)


def _ours() -> asyncio.AbstractEventLoop:
    with _lock:
        if (loop := _loops.get(os.getpid())) is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS))  # a plain act waits in each
            Thread(target=_run_forever, args=(loop,), name="sottovoce", daemon=True).start()
        return loop


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        with suppress(KeyboardInterrupt, SystemExit):  # of one task, whose caller gets it; the others go on
            loop.run_forever()


def _renew_lock() -> None:
    """Replace the lock in a forked child: another thread of its parent may have had it."""
    global _lock
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
