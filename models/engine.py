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

from sottovoce.errors import ContextOverflow, EngineError, SottovoceError, UsageError
from sottovoce.models.decode import decode
from sottovoce.models.network import Network
from sottovoce.models.request import Reply, Request, Rows
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
        self._max_batch, self._threads = max_batch, threads
        self._waiting: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._running: weakref.WeakSet[Future[Reply]] = weakref.WeakSet()
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
        self._start()
        self._running.add(future)
        self._waiting.put(_Ticket(Job(request, future.cancelled, on_text), future))
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
        _check_context(request, self.network.context)
        _check_values(request)
        _check_shapes(request, self.network)

    def close(self) -> None:
        """End the thread once what waits has run."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                # The thread holds the engine weakly, so that a forgotten engine frees its model.
                self._thread = threading.Thread(
                    target=_work, args=(weakref.ref(self), self._waiting, self._threads), daemon=True
                )
                self._thread.start()
                weakref.finalize(self, _end, self._waiting, self._thread, self._running)

    def _collect(self, first: _Ticket) -> tuple[list[_Ticket], bool]:
        """Wait for company within milliseconds; True tells that the engine was closed meanwhile."""
        tickets, start = [first], time.monotonic()
        while len(tickets) < self._max_batch and time.monotonic() - start < LONGEST_WAIT:
            try:
                ticket = self._waiting.get(timeout=QUIET)
            except queue.Empty:
                break
            if ticket is None:
                return tickets, True
            tickets.append(ticket)
        return tickets, False

    def _serve(self, tickets: Sequence[_Ticket]) -> None:
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
            self._serve(tickets[at : at + size])


def _work(engine: weakref.ref[Engine], waiting: queue.SimpleQueue[_Ticket | None], threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)  # counts for this thread alone
    while (first := waiting.get()) is not None:
        alive = engine()
        if alive is None:
            return
        tickets, closed = alive._collect(first)
        alive._serve(tickets)
        del alive, tickets, first
        if closed:
            return


def _end(
    waiting: queue.SimpleQueue[_Ticket | None], thread: threading.Thread, running: weakref.WeakSet[Future[Reply]]
) -> None:
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


def _check_context(request: Request, limit: int | None) -> None:
    need = request.length + request.stop.max_new
    if limit is not None and need > limit:
        raise ContextOverflow(
            f"the prompt has {request.length} tokens and the reply may take {request.stop.max_new}: "
            f"{need} in all, but the model reads {limit}; shorten the prompt or lower max_tokens"
        )


def _check_values(request: Request) -> None:
    sampling, stop = request.sampling, request.stop
    wrong = [
        (request.length < 1, "the prompt is empty; expected at least one token"),
        (stop.max_new < 1, f"max_new is {stop.max_new}; expected at least 1"),
        (not sampling.temperature >= 0, f"temperature is {sampling.temperature}; expected 0 or more"),
        (not 0 < sampling.top_p <= 1, f"top_p is {sampling.top_p}; expected above 0, at most 1"),
        (sampling.top_k < 0, f"top_k is {sampling.top_k}; expected 0 (all tokens) or more"),
        (sampling.repetition_penalty <= 0, f"repetition_penalty is {sampling.repetition_penalty}; expected above 0"),
    ]
    for found, message in wrong:
        if found:
            raise UsageError(message)


def _check_shapes(request: Request, network: Network) -> None:
    count, hidden, width = len(network.layers), network.hidden, network.table.width
    for layer in {*request.record.layers, *(edit.layer for edit in request.edits)}:
        if not 0 <= layer < count:
            raise UsageError(f"layer {layer} is out of range; the model has layers 0 to {count - 1}")
    for edit in request.edits:
        flat = edit.delta.dim() != 2 or edit.delta.shape[1] != hidden
        if flat or edit.at < 0 or edit.at + len(edit.delta) > request.length:
            raise UsageError(
                f"an edit of shape {tuple(edit.delta.shape)} at position {edit.at} does not fit "
                f"a prompt of {request.length} positions and hidden size {hidden}"
            )
    for piece in request.prompt:
        if isinstance(piece, Rows):
            if piece.rows.dim() != 2 or piece.rows.shape[1] != width:
                raise UsageError(f"embedding rows have shape {tuple(piece.rows.shape)}; expected (n, {width})")
            continue
        for id in (min(piece.ids, default=0), max(piece.ids, default=0)):
            if not 0 <= id < len(network.table):  # on an accelerator it would end the process, not the request
                raise UsageError(f"token id {id} is out of range; the model has ids 0 to {len(network.table) - 1}")
