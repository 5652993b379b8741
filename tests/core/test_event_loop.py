"""Coroutines run where no loop runs, where one does, and from several threads; what interrupts a wait cancels them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from sottovoce.core.event_loop import is_ours, iterate, may_wait, off_loop, wait

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

    with pytest.raises(RuntimeError, match="await the async one"):
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
    may_wait()
    assert await off_loop(threading.get_ident) == threading.get_ident()
