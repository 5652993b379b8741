from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sottovoce.core.errors import ContextOverflow, EngineError, UsageError
from sottovoce.models import Edit, Engine, Feed, Ids, Record, Request, Sampling, Stop
from tests.models.support import LIMIT, busy, fails, fresh, hooks, spoiled
from tests.support import HIDDEN, VOCABULARY, edit, noise, request, rows, same_reply, tiny_loaded

ROOT = Path(__file__).resolve().parents[2]
Matrix = torch.Tensor


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine without a past."""
    engine = fresh().engine
    yield engine
    engine.close()


# What is refused before it meets a neighbour


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (request(""), "the prompt is empty"),
        (request(max_new=0), "max_new is 0; expected at least 1"),
        (request(sampling=Sampling(-0.1)), "temperature is -0.1; expected 0 or more"),
        (request(sampling=Sampling(1.0, top_p=1.5)), "top_p is 1.5"),
        (request(record=Record((0, 2))), "layer 2 is out of range; the model has layers 0 to 1"),
        (request(edits=(edit(0, 5, 3),)), r"an edit of shape \(3, 32\) at position 5 does not fit a prompt of 7"),
        (request(edits=(Edit(0, 0, noise(2, 31)),)), r"shape \(2, 31\) .* hidden size 32"),
        (request((rows(3, width=31),)), r"embedding rows have shape \(3, 31\); expected \(n, 32\)"),
        (request((rows(3),), stop=Stop(3, (5000,))), "token id 5000 is out of range"),
        (request((rows(3),), banned=(-1,)), "token id -1 is out of range"),
        (request((Ids((4, 5000)),)), f"token id 5000 is out of range; the model has ids 0 to {VOCABULARY - 1}"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_run_is_refused_at_the_door(engine: Engine, asked: Request, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        engine.submit(asked)
    assert engine.statistics.requests == 0


def test_a_prompt_that_is_too_long_is_refused_in_numbers(engine: Engine) -> None:
    long = (Ids((5,) * 500), rows(4))
    with pytest.raises(ContextOverflow, match=r"prompt has 504 tokens and the reply may take 9: 513 in all, .* 512"):
        engine.submit(request(long, 9))
    assert engine.statistics.requests == 0


@pytest.mark.parametrize("family", ["qwen2", "gpt2", "opt"])
def test_a_request_may_fill_the_context_to_its_last_position(family: str) -> None:
    reply = tiny_loaded(family).engine.run(request((Ids((5,) * 504),), 8, record=Record((0,))))
    assert len(reply.ids) == 8 and len(reply.states[0]) == 9


# Many callers, few batches


async def test_requests_of_many_tasks_become_one_batch(engine: Engine) -> None:
    asked = [request(f"What is {n}?") for n in range(12)]

    with busy(engine):
        tasks = [asyncio.create_task(engine.arun(each)) for each in asked]
        await asyncio.sleep(0)  # lets each task ask
    together = await asyncio.gather(*tasks)

    assert engine.statistics.widest == 12
    assert [reply.ids for reply in together] == [engine.run(each).ids for each in asked]


# One row leaves, the others stay


async def test_cancelling_a_task_cancels_its_request(engine: Engine) -> None:
    began, cancelled = threading.Event(), threading.Event()
    steps: list[int] = []

    def step(_logits: Matrix, p: Matrix) -> Matrix:
        steps.append(len(p))
        began.set()
        cancelled.wait(LIMIT)
        return p

    task = asyncio.create_task(engine.arun(request(max_new=400, feed=Feed("mean", step))))
    await asyncio.to_thread(began.wait, LIMIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()

    assert len((await engine.arun(request())).ids) == 8  # the engine is free
    assert steps == [1]


@pytest.mark.parametrize(
    ("faulty", "complaint"),
    [
        (request(feed=Feed("mean", fails)), "the model failed on this request: ZeroDivisionError: of a caller's own"),
        (replace(spoiled(), sampling=Sampling(1.0, top_k=50)), "logits were not finite after 0 new tokens"),
        (replace(spoiled(), feed=Feed("mean"), record=Record((1,), stats=True)), "not finite"),
        (request(edits=(Edit(1, 0, torch.full((7, HIDDEN), torch.inf)),)), "not finite after 0 new tokens"),
    ],
    ids=["raises", "nan top_k", "nan mean", "inf edit"],
)
def test_a_request_that_fails_inside_fails_alone(engine: Engine, faulty: Request, complaint: str) -> None:
    good = [request(record=Record((1,), stats=True)), request("You know:", 5, feed=Feed("mean"))]
    expected = [engine.run(each) for each in good]

    with busy(engine):
        first, failing, last = [engine.submit(each) for each in (good[0], faulty, good[1])]

    with pytest.raises(EngineError, match=complaint):
        failing.result(LIMIT)
    for found, alone in zip((first, last), expected, strict=True):
        assert same_reply(found.result(LIMIT), alone)


def test_a_model_that_fails_in_its_own_code_keeps_no_hook() -> None:
    loaded, seen = fresh(), list[int]()
    loaded.engine.run(request())

    def fail(module: torch.nn.Module, _inputs: object) -> None:
        seen.append(len(module._forward_hooks))
        raise ZeroDivisionError("inside the model")

    handle = loaded.network.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(EngineError, match="ZeroDivisionError: inside the model"):
        loaded.engine.run(request(edits=(edit(1, 1, 2),), record=Record((0, 1))))
    handle.remove()

    assert seen == [2]  # so it failed while our hooks were there: one edits, one records
    assert hooks(loaded.model) == 0
    assert len(loaded.engine.run(request()).ids) == 8


# The thread


def test_a_closed_engine_has_run_what_waited_and_starts_anew_when_asked(engine: Engine) -> None:
    threads = threading.active_count()
    with busy(engine):
        waiting = engine.submit(request())
        closing = threading.Thread(target=engine.close)
        closing.start()
    closing.join(LIMIT)

    assert waiting.done() and threading.active_count() == threads
    assert engine.run(request()).ids == waiting.result().ids
    engine.close()
    engine.close()  # closing twice is no error


def test_a_forgotten_engine_frees_its_model_and_its_thread() -> None:
    gc.collect()  # what other tests forgot
    threads = threading.active_count()
    loaded = fresh()
    loaded.engine.run(request())
    model = weakref.ref(loaded.model)
    assert threading.active_count() == threads + 1

    del loaded
    gc.collect()

    assert model() is None
    assert threading.active_count() == threads


def test_the_number_of_threads_is_set_inside_the_engine_alone() -> None:
    mine, seen = torch.get_num_threads(), []

    def look(_logits: Matrix, p: Matrix) -> Matrix:
        seen.append(torch.get_num_threads())
        return p

    fresh(threads=1).engine.run(request(max_new=1, feed=Feed("mean", look)))

    assert seen == [1] and torch.get_num_threads() == mine


def test_an_empty_piece_beside_latent_rows_is_read_as_nothing() -> None:
    # Found by fuzzing: an empty reply in a prompt with rows failed inside the model.
    latent, engine = rows(3), tiny_loaded().engine
    found, expected = (engine.run(request((latent, *empty, Ids((7,))))) for empty in ([Ids(())], []))
    assert same_reply(found, expected)


LEAVES_A_REQUEST = """
from sottovoce.models import Record
from tests.support import request, tiny_loaded

engine = tiny_loaded().engine
engine.run(request())
left = [engine.submit(request(max_new=400, record=Record(stats=True))) for _ in range(32)]
"""


@pytest.mark.slow  # it imports everything in a process of its own
def test_a_process_ends_cleanly_while_requests_still_run() -> None:
    # Python kills daemon threads at exit; one that was freeing tensors ended in "terminate called without
    # an active exception" and exit code -6.
    ended = subprocess.run(
        [sys.executable, "-c", LEAVES_A_REQUEST], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert (ended.returncode, ended.stderr) == (0, "")
