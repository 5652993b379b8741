"""One owner of a shared model: concurrent requests, sync and async, are rows of one thread's batch.

A request takes a slot as soon as one is free, also while others decode. One that is cancelled frees
its slot before the next step; one that fails inside the model fails alone; see `batch`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import torch

from sottovoce.errors import EngineError
from sottovoce.models.batch import Batch
from sottovoce.models.check import check
from sottovoce.models.keys import chain, position_keys
from sottovoce.models.network import Network
from sottovoce.models.request import Reply, Request
from sottovoce.models.row import Job, Row
from sottovoce.models.seats import Limits
from sottovoce.models.tally import Tally
from sottovoce.models.text import Detokenizer
from sottovoce.sizes import size_of

MAX_BATCH = 64
EXACT_BATCH = 16  # every step of an exact engine has as many rows, so fewer are cheaper
QUIET = 0.001  # seconds without a newcomer after which an idle engine begins
SAME = "as the other"
LONGEST_WAIT = 0.01  # seconds after which it begins whatever still comes


class Engine:
    """Runs requests on one network, many at a time."""

    def __init__(
        self,
        network: Network,
        detokenizers: Mapping[bool, Detokenizer],
        *,
        max_batch: int | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
        exact: bool = False,
        reuse: bool = True,
    ) -> None:
        """Start the engine's thread at the first request.

        Args:
            network: The model.
            detokenizers: By whether special tokens are text.
            max_batch: Slots; None is 64, or 16 where `exact`.
            threads: torch's, inside the engine's thread; an exact engine has one.
            memory: Bytes for keys and values, prefixes included, also as '4GB'; None is a share of what is free.
            exact: Equal bits whatever the company, at the price of full batches in every step.
            reuse: Keep what was read, so that equal beginnings of prompts are read once.

        Raises:
            UsageError: `memory` is no size above 0.
        """
        self.network, self._detokenizers = network, detokenizers
        self.limits = Limits(max_batch or (EXACT_BATCH if exact else MAX_BATCH), size_of(memory), exact, reuse)
        self._threads = threads
        self._worker: _Worker | None = None
        self._lock = threading.Lock()
        self.tally = Tally()
        """What it did so far."""

    def submit(self, request: Request, on_text: Callable[[str], None] | None = None) -> Future[Reply]:
        """Queue a request. Cancelling the future frees its slot before the next step.

        `on_text` gets the text so far whenever it grew, from the engine's thread; a request that
        begins anew repeats what was shown.

        Raises:
            ContextOverflow: prompt and longest reply exceed the model's context.
            UsageError: a value of the request does not fit the model.
        """
        self.check(request)
        future: Future[Reply] = Future()
        job = self._job(request, future, on_text)
        with self._lock:
            if self._worker is None:
                self._worker = _Worker(self, 1 if self.limits.exact else self._threads)
            self._worker.take(job, future)
        return future

    def _job(self, request: Request, future: Future[Reply], on_text: Callable[[str], None] | None) -> Job:
        keys: Sequence[bytes] = ()
        blocks: Sequence[bytes] = ()
        if self.limits.block:
            keys = position_keys(request, self.network.table.rows.dtype)
            blocks = chain(keys[:-1], self.limits.block)
        return Job(request, lambda row: _settle(future, row), keys, blocks, future.cancelled, on_text)

    def run(self, request: Request) -> Reply:
        """Run one request to its end."""
        return self.submit(request).result()

    def run_all(self, requests: Sequence[Request]) -> list[Reply]:
        """Run many requests, batched; replies come in the order of the requests."""
        return [future.result() for future in [self.submit(request) for request in requests]]

    async def arun(self, request: Request) -> Reply:
        """Run one request; cancelling the task cancels the request."""
        return await asyncio.wrap_future(self.submit(request))

    def check(self, request: Request) -> None:
        """Refuse what cannot run, before it meets any neighbour. Errors: see `submit`."""
        check(request, self.network)

    def close(self) -> None:
        """End the thread once what waits has run; what it kept of prompts is gone. A later request starts another."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def twin(self, *, reuse: bool = True, exact: bool = False, memory: int | str | None = SAME) -> Engine:
        """Another engine on the same network, with slots and a thread of its own, and as much memory unless told."""
        return Engine(
            self.network,
            self._detokenizers,
            max_batch=None if exact != self.limits.exact else self.limits.rows,
            threads=self._threads,
            memory=self.limits.memory if memory == SAME else memory,
            exact=exact,
            reuse=reuse,
        )

    def begin(self, jobs: list[Job], cancels: threading.Event) -> Batch | None:
        """An empty batch; where the model breaks on its very first token, all jobs end with that, and there is none."""
        try:
            return Batch(self.network, self._detokenizers, self.limits, self.tally, cancels)
        except Exception as error:  # whatever breaks in a model's own code must reach its requests
            for job in jobs:
                row = Row(job, self._detokenizers, 0)
                row.error = EngineError(f"the model failed on a first token: {type(error).__name__}: {error}")
                job.done(row)
            jobs.clear()
            return None


_Waiting = queue.SimpleQueue[Job | None]
_Running = weakref.WeakSet[Future[Reply]]


class _Thread(threading.Thread):
    """That of an engine."""


class _Worker:
    """The thread of an engine and the queue before it; it holds the engine weakly, so that a forgotten one is freed."""

    def __init__(self, engine: Engine, threads: int | None) -> None:
        self._waiting: _Waiting = queue.SimpleQueue()
        self._running: _Running = weakref.WeakSet()
        self._cancels = threading.Event()
        work = _Thread(
            target=_work, args=(weakref.ref(engine), self._waiting, self._running, self._cancels, threads), daemon=True
        )
        self._thread = work
        self._thread.start()
        weakref.finalize(engine, _forgotten, self._waiting, work, self._running)

    def take(self, job: Job, future: Future[Reply]) -> None:
        cancels = self._cancels
        future.add_done_callback(lambda ended: cancels.set() if ended.cancelled() else None)
        self._running.add(future)
        self._waiting.put(job)

    def end(self) -> None:
        """End the thread once what waits has run; what the thread itself calls does not wait for that."""
        self._waiting.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()


def _work(
    engine: weakref.ref[Engine], waiting: _Waiting, running: _Running, cancels: threading.Event, threads: int | None
) -> None:
    try:
        _serve(engine, waiting, cancels, threads)
    except BaseException as error:  # whatever ends the thread, nobody may wait for ever
        for future in list(running):
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_exception(EngineError(f"the engine's thread ended: {type(error).__name__}: {error}"))
        raise


def _serve(engine: weakref.ref[Engine], waiting: _Waiting, cancels: threading.Event, threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)  # counts for this thread alone
    batch: Batch | None = None
    closed = False
    while not closed:
        jobs, closed = _first(waiting)
        alive = engine()
        if alive is not None and jobs:
            batch = batch or alive.begin(jobs, cancels)
        del alive
        if batch is not None:
            for job in jobs:
                batch.take(job)
            closed = _run(batch, waiting) or closed
        del jobs


def _run(batch: Batch, waiting: _Waiting) -> bool:
    """Take turns until nothing is left to do; True tells that the engine was closed meanwhile."""
    closed = False
    while batch.busy:
        try:
            batch.turn()
        except Exception as error:  # a mistake of ours: nobody may wait for ever
            batch.fail(error)
        closed = _newcomers(batch, waiting) or closed
    return closed


def _newcomers(batch: Batch, waiting: _Waiting) -> bool:
    while True:
        try:
            job = waiting.get_nowait()
        except queue.Empty:
            return False
        if job is None:
            return True
        batch.take(job)


def _first(waiting: _Waiting) -> tuple[list[Job], bool]:
    """Wait for a request, and for company within milliseconds; True tells that the engine was closed."""
    first = waiting.get()
    if first is None:
        return [], True
    jobs, start = [first], time.monotonic()
    while time.monotonic() - start < LONGEST_WAIT:
        try:
            job = waiting.get(timeout=QUIET)
        except queue.Empty:
            break
        if job is None:
            return jobs, True
        jobs.append(job)
    return jobs, False


def _forgotten(waiting: _Waiting, thread: threading.Thread, running: _Running) -> None:
    """Runs when the engine is forgotten and when Python exits.

    Python kills daemon threads as it exits, and one that is freeing tensors then takes the process
    down with "terminate called without an active exception". So what runs is cancelled, and the
    thread is awaited: it ends at its next step.
    """
    for future in list(running):
        future.cancel()
    waiting.put(None)
    # An engine's thread may be the one that forgets: itself, or an engine whose thread waits for the same model.
    if not isinstance(threading.current_thread(), _Thread):
        thread.join()


def _settle(future: Future[Reply], row: Row) -> None:
    """Give a row's end to who waits; a cancelled future tells those who wait for several at once."""
    if not future.set_running_or_notify_cancel():
        return
    if row.error is not None:
        future.set_exception(row.error)
        return
    try:
        future.set_result(row.reply())
    except Exception as error:  # the engine's thread must outlive whatever a reply breaks on
        future.set_exception(error)
