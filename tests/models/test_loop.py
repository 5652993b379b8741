"""Continuous batching: who sits when, how prompts are read beside those that decode, and what a failure leaves."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

import pytest
import torch

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import EngineError
from sottovoce.models import Engine, Feed, LoadedModel, Record, Reply, Request, Rows, Sampling
from sottovoce.models.engine import scheduler
from sottovoce.models.engine.cache import Limits, chain
from sottovoce.models.engine.loop import Loop, Worker
from sottovoce.models.engine.request import id_keys
from sottovoce.models.engine.scheduler import IDLE_PREFILL_FACTOR, Statistics
from sottovoce.models.engine.sequence import Sequence
from tests.models.support import (
    LIMIT,
    busy,
    fails,
    fresh,
    living,
    plain,
    reads_as_plain,
    slots,
    spoiled,
    together,
    words,
)
from tests.support import HIDDEN, close, edit, request, rows, same_reply
from tests.tables import some

EVERYTHING = Record((0, 1), stats=True, top=3)
LONG = {"max_position_embeddings": 1024}
MAX_PREFILL_TOKENS = 128  # an eighth of the usual number, so that prompts of several chunks are short
CHUNK = IDLE_PREFILL_FACTOR * MAX_PREFILL_TOKENS // 2  # positions that are read of each of two prompts at a time
SOON = 600  # seconds, where an engine is known to hang
Matrix = torch.Tensor
Act = Callable[[], object]


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "MAX_PREFILL_TOKENS", MAX_PREFILL_TOKENS)


def stepping(max_new: int, acts: dict[int, Act], prompt: str = "You know:") -> Request:
    """A request that does something at some of its steps, counted from 1, in the engine's thread."""
    steps = iter(range(1, max_new + 1))

    def weigh(_logits: Matrix, p: Matrix) -> Matrix:
        acts.get(next(steps, 0), lambda: None)()
        return p

    return request(prompt, max_new, feed=Feed("mean", weigh))


def noting(order: list[object], name: object) -> Callable[[Future[Reply]], None]:
    return lambda _: order.append(name)


# Who comes and goes


def test_a_late_request_joins_those_that_decode_and_leaves_before_them() -> None:
    engine = fresh().engine
    late: list[Future[Reply]] = []
    ended: list[int] = []

    def join() -> None:
        late.append(engine.submit(request("Hi", 5)))
        late[0].add_done_callback(lambda _: ended.append(engine.statistics.steps))

    engine.run(stepping(40, {10: join}))

    assert late[0].result(LIMIT).ids == engine.twin().run(request("Hi", 5)).ids
    assert ended == [9 + 4]  # the first token of each comes with its prompt
    assert (engine.statistics.steps, engine.statistics.stepped, engine.statistics.widest) == (39, 43, 2)


def test_larger_slots_keep_what_was_generated_so_far() -> None:
    loaded = fresh()
    loop = Loop(loaded.network, Limits(4), Statistics())
    asked = request(max_new=30, record=EVERYTHING), request((words(300),), 4)
    first, longer = (Sequence(each, loaded.tokenizer) for each in asked)
    loop.scheduler.waiting.append(first)
    for _ in range(12):
        loop.step()
    columns = loop.scheduler.caches.kv.columns
    loop.scheduler.waiting.append(longer)
    while loop.scheduler.busy:
        loop.step()
        columns = max(columns, loop.scheduler.caches.kv.columns)

    assert columns > 300 and same_reply(first.future.result(), loaded.engine.run(first.request))


def test_those_who_ask_for_as_much_end_in_the_order_in_which_they_came() -> None:
    engine, order = fresh(max_batch=3).engine, list[object]()
    with busy(engine):
        for n in range(9):
            engine.submit(request(f"{n}: why?", 4)).add_done_callback(noting(order, n))
    engine.run(request())

    assert order == list(range(9))


class Untimed(queue.SimpleQueue[Any]):
    """A queue that takes no timeout."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        assert timeout is None
        return super().get(block)


@pytest.mark.parametrize("busy", [True, False])
def test_no_wait_for_requests_has_a_timeout(busy: bool) -> None:
    """Python 3.11 waits forever, once in ten thousand times, where a timeout of a `SimpleQueue` is over at once.

    On a busy machine an engine then held a request until the next one came.
    """
    begin: Any = None  # no loop is made
    worker, tokenizer = Worker(begin, None), fresh().tokenizer
    sequences = [Sequence(request(), tokenizer) for _ in range(2)]
    worker._queue = Untimed()
    for each in sequences:
        worker.take(each)
    assert worker._gather(busy=busy) == sequences


def test_a_large_request_is_not_overtaken_for_ever_by_small_ones() -> None:
    small, large = request("Hi", 4), request((words(300),), 100)
    engine, order = fresh(memory=slots(448)).engine, list[object]()
    with busy(engine):
        submitted = [engine.submit(each) for each in (*[small] * 20, large, *[small] * 20)]
        for n, each in enumerate(submitted):
            each.add_done_callback(noting(order, n))
    wait(submitted, LIMIT)

    assert order.index(20) == 20


class Listed(list[bytes]):
    """Digests of blocks that count how often all of them are listed."""

    times = 0

    def __iter__(self) -> Iterator[bytes]:
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize("most", [2, 3])
def test_a_request_that_waits_lists_no_prompt_that_is_being_read(most: int) -> None:
    # It took 161 ms at each pass beside 64 prompts of 8,000 tokens, also where no slot was free.
    loaded = fresh()
    scheduler = Loop(loaded.network, Limits(most), Statistics()).scheduler
    for seed in (1, 2, 1):  # the third begins like the first, and so waits for it even if there is a slot
        asked = request((words(100, seed),))
        scheduler.waiting.append(Sequence(asked, loaded.tokenizer, blocks=Listed(chain(id_keys(asked.ids), 1))))
    reading = [each.blocks for each in scheduler.schedule().sequences]
    before = [blocks.times for blocks in reading if isinstance(blocks, Listed)]

    assert [each.blocks for each in scheduler.schedule().sequences] == reading and len(scheduler.waiting) == 1
    assert [blocks.times for blocks in reading if isinstance(blocks, Listed)] == before and len(before) == 2


def test_a_cancelled_request_gives_its_slot_to_the_next_at_once() -> None:
    engine = fresh(max_batch=1).engine
    leaving: list[Future[Reply]] = []
    with busy(engine):
        leaving.append(engine.submit(stepping(400, {7: lambda: leaving[0].cancel()})))
        staying = engine.submit(request(max_new=5))

    assert len(staying.result(LIMIT).ids) == 5 and leaving[0].cancelled()
    assert engine.statistics.steps == 6 + 4


# Prompts beside those that decode


def test_a_long_prompt_does_not_stop_those_who_decode() -> None:
    engine = fresh(shape=LONG).engine
    long: list[Future[Reply]] = []
    ended: list[int] = []

    def ask() -> None:
        long.append(engine.submit(request((words(6 * MAX_PREFILL_TOKENS + 1),), 1)))
        long[0].add_done_callback(lambda _: ended.append(engine.statistics.steps))

    engine.run(stepping(40, {10: ask}))

    assert ended == [9 + 6]  # a step between each two of its seven chunks
    assert (engine.statistics.passes, engine.statistics.steps) == (1 + 7, 39)


@pytest.mark.parametrize("family", some(["qwen2", "gemma2", "gpt2"], "gemma2"))
def test_a_prompt_read_in_chunks_beside_others_reads_as_in_one_pass(family: str) -> None:
    loaded = fresh(family, {**LONG, "n_positions": None, "sharp": 0.1}, reuse=False)
    pieces = (words(MAX_PREFILL_TOKENS - 3), rows(9), words(MAX_PREFILL_TOKENS + 2, seed=1))
    changes = (edit(0, MAX_PREFILL_TOKENS - 5, 20), edit(1, 2 * MAX_PREFILL_TOKENS - 2, 4, seed=1))
    asked = request(pieces, 1, edits=changes, record=Record((0, 1), final_norm=True, stats=True, top=3))
    long: list[Future[Reply]] = []

    loaded.engine.run(stepping(20, {2: lambda: long.append(loaded.engine.submit(asked))}))
    reply, whole = long[0].result(LIMIT), plain(loaded, asked, output_hidden_states=True)

    assert loaded.engine.statistics.passes > 3
    assert close(reply.states[0][0], whole.hidden_states[1][0, -1])
    assert close(reply.states[1][0], whole.hidden_states[2][0, -1])
    assert reads_as_plain(loaded, asked, reply)


@pytest.mark.parametrize("second", some(["cached", "short"], "cached"))
def test_a_prompt_that_is_read_before_a_long_one_ahead_of_it_changes_slots_with_it(second: str) -> None:
    """The slots were swapped as far as the long prompt had been read, which is less than a cached one fills.

    The end of the cached prompt was lost, and its reply changed without an error.
    """
    engine = fresh(shape=LONG).engine
    long, cached = words(3 * CHUNK, seed=1), words(CHUNK + 50)
    engine.run(request((cached,), 1))
    asked = [request((piece,), 6, record=EVERYTHING) for piece in (long, cached if second == "cached" else words(9))]
    found = together(engine, asked)

    assert [reply.usage.reused for reply in found] == [0, CHUNK + 49 if second == "cached" else 8]
    assert all(map(same_reply, found, map(engine.twin(reuse=False).run, asked)))


def test_chunks_of_equal_length_at_different_positions_of_two_prompts_see_each_their_own_columns() -> None:
    """Without padding they look like whole prompts, whose mask follows from the longest one."""
    loaded = fresh(shape={**LONG, "sharp": 0.1}, reuse=False)
    asked = [request((words(n, seed=n),), 1, record=EVERYTHING) for n in (500, 325)]
    found: list[Future[Reply]] = []
    long, other = (partial(lambda each: found.append(loaded.engine.submit(each)), each) for each in asked)

    loaded.engine.run(stepping(30, {2: long, 4: other}))

    assert all(reads_as_plain(loaded, each, one.result(LIMIT)) for each, one in zip(asked, found, strict=True))


def test_edits_of_prompts_of_unequal_length_that_are_read_together_act_each_at_its_own_positions() -> None:
    """Shorter prompts are padded before their beginning: an edit that counts from there hits a wrong column."""
    loaded = fresh(reuse=False)
    asked = [
        request((words(n, seed=n),), 1, edits=(edit(0, at, 2, seed=n), edit(1, at + 1, 1)), record=EVERYTHING)
        for n, at in ((4, 0), (9, 7), (17, 3), (30, 28), (30, 0))
    ]
    found = together(loaded.engine, asked)

    assert loaded.engine.statistics.passes == 1 + 1
    assert all(reads_as_plain(loaded, each, reply) for each, reply in zip(asked, found, strict=True))


# What a failure leaves


NOT_A_NUMBER = torch.full((1, HIDDEN), torch.nan)


def sound(engine: Engine) -> bool:
    """Rows of different lengths, in all slots, say together what they say alone."""
    asked = [request((words(n),), 6, record=EVERYTHING) for n in (120, 2, 3, 5, 2, 90, 3, 4)]
    with busy(engine):
        submitted = [engine.submit(each) for each in asked]
    plain = engine.twin(reuse=False)
    replies = [each.exception(LIMIT) or each.result() for each in submitted]
    return all(
        isinstance(one, Reply) and same_reply(one, plain.run(each)) for one, each in zip(replies, asked, strict=True)
    )


LAST_STATE = request((words(30),), 1, feed=Feed("mean", lambda _, p: p * torch.nan), record=Record((0,)))


@pytest.mark.parametrize(
    "failing", [[spoiled(words(n)) for n in (2, 60, 4, 100)], [LAST_STATE] * 8], ids=["row", "end"]
)
def test_a_failed_row_leaves_nothing_to_who_sits_there_next(failing: list[Request]) -> None:
    engine = fresh(reuse=False).engine
    assert sound(engine)  # and has made all slots that are needed
    with busy(engine):
        submitted = [engine.submit(each) for each in failing]
    wait(submitted, LIMIT)

    assert LAST_STATE in failing or all(isinstance(each.exception(), EngineError) for each in submitted)
    assert sound(engine)


def test_a_failing_prompt_that_moved_while_it_was_read_leaves_nothing_behind() -> None:
    """NaN keys of a prompt in chunks were copied to another slot, and later met the next row in the old one."""
    engine = fresh(shape=LONG, reuse=False).engine
    assert sound(engine)
    with busy(engine):
        engine.submit(request("Hi", 2))
        engine.submit(request("Hi", 60))
        failing = engine.submit(request((Rows(NOT_A_NUMBER.expand(3 * MAX_PREFILL_TOKENS, -1)),)))

    assert isinstance(failing.exception(LIMIT), EngineError)
    assert sound(engine)


def breaking(loaded: LoadedModel, breaks: Callable[[int, int], Exception | None]) -> Untyped:
    """A hook that raises what `breaks` says of a pass of so many rows and queries."""

    def look(_module: object, inputs: tuple[Matrix, ...]) -> None:
        if error := breaks(*inputs[0].shape[:2]):
            raise error

    return loaded.network.layers[1].register_forward_pre_hook(look)


@pytest.mark.parametrize(
    ("error", "most", "prompts"),
    [
        (torch.OutOfMemoryError("no room"), 1, True),
        (MemoryError(), 2, False),
        (ZeroDivisionError("in a batch"), 1, True),
        (ZeroDivisionError("in a batch"), 1, False),
    ],
)
def test_where_memory_is_short_or_a_batch_breaks_fewer_go_on_together(
    error: Exception, most: int, prompts: bool
) -> None:
    loaded = fresh()
    asked = [request((words(n + 2, seed=n),), 3 + n, record=EVERYTHING) for n in range(8)]
    alone = [loaded.engine.twin(reuse=False).run(each) for each in asked]

    handle = breaking(loaded, lambda rows, queries: error if rows > most and (queries > 1) == prompts else None)
    found = together(loaded.engine, asked)
    handle.remove()

    assert all(map(same_reply, found, alone))
    assert loaded.engine.statistics.restarts > 0
    loaded.engine.run_all(asked)
    assert loaded.engine.statistics.widest == 8  # once memory is there again


def test_prefixes_are_given_up_before_any_row_begins_anew() -> None:
    engine, short = fresh().engine, [True]

    def once(_logits: Matrix, p: Matrix) -> Matrix:
        if short and short.pop():
            raise torch.OutOfMemoryError("no room")
        return p

    engine.run(request((words(50),)))
    reply = engine.run(request((words(50),), feed=Feed("mean", once)))

    assert reply.ids == engine.twin().run(request((words(50),), feed=Feed("mean"))).ids
    assert engine.statistics.restarts == 0 and not short


def test_where_the_engine_itself_breaks_all_that_is_under_way_ends_with_that_and_it_goes_on() -> None:
    engine = fresh().engine

    def leave(_text: str) -> None:
        raise SystemExit("ours")  # what no request is blamed for

    with busy(engine):
        submitted = [engine.submit(request(), leave), engine.submit(request(max_new=50)), engine.submit(request())]

    assert {str(each.exception(LIMIT)) for each in submitted} == {"the model failed on this request: SystemExit: ours"}
    assert len(engine.run(request()).ids) == 8


def test_after_a_pass_broke_each_runs_alone_until_all_have_ended_and_then_they_run_together() -> None:
    engine = fresh().engine
    asked = [request((words(n, seed=n),), 20, record=EVERYTHING) for n in (3, 9)]
    with busy(engine):
        failing = engine.submit(request(feed=Feed("mean", fails)))
        others = [engine.submit(each) for each in asked]

    assert isinstance(failing.exception(LIMIT), EngineError)
    alone = map(engine.twin(reuse=False).run, asked)
    assert all(same_reply(one.result(LIMIT), other) for one, other in zip(others, alone, strict=True))
    assert (engine.statistics.restarts, engine.statistics.widest) == (3, 1)
    with busy(engine):
        again = [engine.submit(request()) for _ in range(3)]
    wait(again, LIMIT)
    assert engine.statistics.widest == 3


def test_a_request_that_cannot_be_admitted_fails_alone() -> None:
    """Uniforms for so many tokens fit no memory."""
    engine = fresh(shape={"max_position_embeddings": 10**15}, memory=slots(256, 4)).engine
    with busy(engine):
        good = engine.submit(request())
        absurd = engine.submit(request(max_new=10**14, sampling=Sampling(1.0)))

    assert isinstance(absurd.exception(SOON), EngineError)
    assert len(good.result(SOON).ids) == 8


def test_who_waits_for_a_request_that_was_cancelled_in_a_full_queue_is_told_at_once() -> None:
    engine = fresh(max_batch=1).engine
    told: list[bool] = []
    with busy(engine):
        ongoing = engine.submit(
            stepping(30, {3: lambda: waiting.cancel(), 9: lambda: told.append(not wait([waiting], 0).not_done)})
        )
        waiting = engine.submit(request())
    ongoing.result(LIMIT)

    assert told == [True]


def fails_because(_logits: Matrix, _p: Matrix) -> Matrix:
    try:
        return fails(_logits, _p)
    except ZeroDivisionError as error:
        raise ValueError("of a caller's own") from error


def listen(text: str) -> None:
    raise OSError(f"cannot show {text!r}")


def test_an_error_that_somebody_keeps_holds_no_keys_and_values() -> None:
    """Of a caller's function, with its cause, of a listener, of rows that are no numbers, and of too large a prompt."""
    asked = [*(request(feed=Feed("mean", each)) for each in (fails, fails_because)), spoiled(), request((words(200),))]
    engine = fresh(memory=slots(128)).engine
    network = engine.network
    errors = [engine.submit(each).exception(LIMIT) for each in asked]
    errors.append(engine.submit(request(), listen).exception(LIMIT))

    engine.close()

    assert all(isinstance(each, EngineError) for each in errors)
    assert [each for each in living(Loop) if each.scheduler._network is network] == []


# Sabotage


class Looked(Future[Reply]):
    """Is cancelled as the engine looks at it for the nth time."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks, self.settled = looks, 0

    def done(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            self.cancel()
        return super().done()

    def set_running_or_notify_cancel(self) -> bool:
        self.settled += 1
        return super().set_running_or_notify_cancel()


@pytest.mark.parametrize("looks", range(8))
def test_a_request_that_is_cancelled_between_any_two_looks_is_settled_once(looks: int) -> None:
    loaded, future = fresh(), Looked(looks)
    sequence = Sequence(request(max_new=2), loaded.tokenizer)
    sequence.future = future
    batch = Loop(loaded.network, Limits(4), Statistics())
    batch.scheduler.waiting.append(sequence)

    while batch.scheduler.busy:
        batch.step()

    assert future.settled == 1
