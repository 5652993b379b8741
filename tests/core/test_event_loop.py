"""Coroutines run where no loop runs, where one does, and from several threads; what interrupts a wait cancels them."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pytest

from sottovoce.core.event_loop import in_daemon, is_ours, iterate, off_loop, wait

ROOT = Path(__file__).resolve().parents[2]
WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def here() -> tuple[str, int]:
    await asyncio.sleep(0)
    return WHO.get(), threading.get_ident()


async def test_a_sync_caller_waits_in_a_notebook_whose_loop_runs_and_in_many_threads_on_one_loop() -> None:
    def call(name: str) -> tuple[str, int]:
        WHO.set(name)
        return wait(here())

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(call, "abcd"))
    found.append(call("notebook"))

    assert [name for name, _ in found] == [*"abcd", "notebook"]
    assert len({thread for _, thread in found}) == 1 and threading.get_ident() not in dict(found).values()


def test_an_error_comes_as_it_was_raised_with_its_notes() -> None:
    async def late() -> None:
        error = TimeoutError("late")
        error.add_note("of zoe")
        raise error

    with pytest.raises(TimeoutError, match="late") as caught:
        wait(late())
    assert caught.value.__notes__ == ["of zoe"]


def test_waiting_on_the_loop_itself_is_refused_instead_of_waiting_for_ever() -> None:
    async def act() -> None:
        wait(here())

    with pytest.raises(RuntimeError, match="await the async method"):
        wait(act())


def test_a_generator_that_is_left_early_is_closed() -> None:
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(9):
                yield number
        finally:
            closed.set()

    found = iterate(numbers())
    assert [next(found), next(found)] == [0, 1]
    found.close()
    assert closed.is_set() and list(iterate(numbers())) == [*range(9)]


async def test_work_that_waits_for_files_leaves_an_application_s_loop_and_stays_on_ours() -> None:
    async def ours() -> bool:
        return is_ours() and await off_loop(threading.get_ident) == threading.get_ident()

    assert await off_loop(threading.get_ident) != threading.get_ident()
    assert wait(ours()) and not is_ours()


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
def test_a_wait_that_is_interrupted_ends_when_its_coroutine_has_and_the_loop_goes_on() -> None:
    running, steps = threading.Event(), list[str]()

    async def slow() -> None:
        try:
            running.set()
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            steps.append("closed its files")

    def interrupt() -> None:
        running.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=interrupt).start()
            wait(slow())
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["closed its files"] and wait(here())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_task_that_leaves_the_program_reaches_its_caller_and_the_loop_goes_on(error: BaseException) -> None:
    async def leave() -> None:
        await asyncio.gather(asyncio.create_task(raising()), asyncio.sleep(0))

    async def raising() -> None:
        raise error

    with pytest.raises(type(error)):
        wait(leave())
    assert wait(here())


def test_a_call_in_a_daemon_thread_cannot_hang_its_task() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        wait(in_daemon(partial(next, iter(()))))


def test_no_file_opens_an_event_loop_of_its_own() -> None:
    ours = re.compile(r"\basyncio\.(run|Runner)\(|new_event_loop|run_until_complete|set_event_loop")
    sources = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "tests"]
    sources = [path for path in sources if not path.relative_to(ROOT).parts[0].startswith(".")]

    assert len(sources) > 200
    opening = [str(path.relative_to(ROOT)) for path in sources if ours.search(path.read_text(encoding="utf-8"))]
    assert opening == ["sottovoce/core/event_loop.py"]
