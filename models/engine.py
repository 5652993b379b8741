"""One owner of a shared model: concurrent requests, sync and async, become batches of one thread.

A waiting request joins the next batch. A request that is cancelled leaves it; one that fails inside
the model is tried again alone, so that only the faulty one fails; out of memory halves the batch.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from sottovoce.errors import EngineError, SottovoceError
from sottovoce.models.check import check
from sottovoce.models.decode import decode
from sottovoce.models.network import Network
from sottovoce.models.request import Reply, Request
from sottovoce.models.row import Job, Row
from sottovoce.models.text import Detokenizer

MAX_BATCH = 64
QUIET = 0.002  # seconds without a newcomer after which a batch starts
LONGEST_WAIT = 0.02  # seconds after which it starts whatever still comes


@dataclass(frozen=True, eq=False)
class _Ticket:
    job: Job
    future: Future[Reply]


class Engine:
    """Runs requests on one network, many at a time."""

    def __init__(
        self,
        network: Network,
        detokenizers: Mapping[bool, Detokenizer],
        *,
        max_batch: int = MAX_BATCH,
        threads: int | None = None,
    ) -> None:
        """Start the engine's thread at the first request; `threads` are torch's inside it."""
        self.network, self._detokenizers = network, detokenizers
        self.max_batch, self._threads = max_batch, threads
        self._worker: _Worker | None = None
        self._lock = threading.Lock()
        self.batches: list[int] = []
        """Sizes of the batches run so far."""

    def submit(self, request: Request, on_text: Callable[[str], None] | None = None) -> Future[Reply]:
        """Queue a request. Cancelling the future takes the request out of its batch at the next step.

        `on_text` gets the text so far whenever it grew, from the engine's thread; a request that is
        tried again begins anew, so what was shown only ever repeats.

        Raises:
            ContextOverflow: prompt and longest reply exceed the model's context.
            UsageError: a value of the request does not fit the model.
        """
        self.check(request)
        future: Future[Reply] = Future()
        with self._lock:
            if self._worker is None:
                self._worker = _Worker(self, self._threads)
            self._worker.take(_Ticket(Job(request, future.cancelled, on_text), future))
        return future

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
        """End the thread once what waits has run."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()

    def serve(self, tickets: Sequence[_Ticket]) -> None:
        """Run tickets as one batch, in the worker's thread; every future is settled when it returns."""
        tickets = [ticket for ticket in tickets if not _left(ticket.future)]
        if not tickets:
            return
        self.batches.append(len(tickets))
        try:
            rows = decode(self.network, [ticket.job for ticket in tickets], self._detokenizers)
        except torch.OutOfMemoryError as error:
            self._split(tickets, error, parts=2)
        except Exception as error:  # whatever breaks in a model's own code must reach its request
            self._split(tickets, error, parts=len(tickets))
        else:
            for ticket, row in zip(tickets, rows, strict=True):
                _settle(ticket.future, row)

    def _split(self, tickets: Sequence[_Ticket], error: Exception, parts: int) -> None:
        if len(tickets) == 1:
            _fail(tickets[0].future, error)
            return
        size = -(-len(tickets) // parts)
        for at in range(0, len(tickets), size):
            self.serve(tickets[at : at + size])


class _Worker:
    """The thread of an engine and the queue before it; it holds the engine weakly, so that a forgotten one is freed."""

    def __init__(self, engine: Engine, threads: int | None) -> None:
        self._waiting: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._running: weakref.WeakSet[Future[Reply]] = weakref.WeakSet()
        work = threading.Thread(
            target=_work, args=(weakref.ref(engine), self._waiting, threads, engine.max_batch), daemon=True
        )
        self._thread = work
        self._thread.start()
        weakref.finalize(engine, _forgotten, self._waiting, work, self._running)

    def take(self, ticket: _Ticket) -> None:
        self._running.add(ticket.future)
        self._waiting.put(ticket)

    def end(self) -> None:
        """End the thread once what waits has run."""
        self._waiting.put(None)
        self._thread.join()


_Waiting = queue.SimpleQueue[_Ticket | None]


def _work(engine: weakref.ref[Engine], waiting: _Waiting, threads: int | None, max_batch: int) -> None:
    if threads is not None:
        torch.set_num_threads(threads)  # counts for this thread alone
    while (first := waiting.get()) is not None:
        tickets, closed = _collect(first, waiting, max_batch)
        alive = engine()
        if alive is not None:
            alive.serve(tickets)
        del alive, tickets, first
        if closed:
            return


def _collect(first: _Ticket, waiting: _Waiting, max_batch: int) -> tuple[list[_Ticket], bool]:
    """Wait for company within milliseconds; True tells that the engine was closed meanwhile."""
    tickets, start = [first], time.monotonic()
    while len(tickets) < max_batch and time.monotonic() - start < LONGEST_WAIT:
        try:
            ticket = waiting.get(timeout=QUIET)
        except queue.Empty:
            break
        if ticket is None:
            return tickets, True
        tickets.append(ticket)
    return tickets, False


def _forgotten(waiting: _Waiting, thread: threading.Thread, running: weakref.WeakSet[Future[Reply]]) -> None:
    """Runs when the engine is forgotten and when Python exits.

    Python kills daemon threads as it exits, and one that is freeing tensors then takes the process
    down with "terminate called without an active exception". So what runs is cancelled, and the
    thread is awaited: it ends at its next step.
    """
    for future in list(running):
        future.cancel()
    waiting.put(None)
    if thread is not threading.current_thread():  # the thread itself may hold the engine last
        thread.join()


def _left(future: Future[Reply]) -> bool:
    """True where the request was cancelled; tells those who wait for several futures at once."""
    return future.cancelled() and not future.set_running_or_notify_cancel()


def _settle(future: Future[Reply], row: Row) -> None:
    if row.error is not None or row.finish is None:  # failed, or cancelled on its way
        _fail(future, row.error or EngineError("the request was cancelled"))
        return
    try:
        reply = row.reply()
    except Exception as error:  # the engine's thread must outlive whatever a reply breaks on
        _fail(future, error)
        return
    if future.set_running_or_notify_cancel():
        future.set_result(reply)


def _fail(future: Future[Reply], error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        known = isinstance(error, SottovoceError)
        future.set_exception(error if known else _engine_error(error))


def _engine_error(error: Exception) -> EngineError:
    wrapped = EngineError(f"the model failed on this request: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
