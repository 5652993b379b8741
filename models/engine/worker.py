"""The thread of an engine and the queue before it. It does not know the engine, so that a forgotten one is freed."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future

import torch

from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.request import Reply
from sottovoce.models.engine.sequence import Job, Sequence, failure

QUIET = 0.001  # seconds without a newcomer after which an idle engine begins
LONGEST_WAIT = 0.01  # seconds after which it begins whatever still comes


class Worker(threading.Thread):
    """Steps a loop as long as there is anything to do, and waits for more until it is ended."""

    def __init__(self, begin: Callable[[threading.Event], Loop], threads: int | None) -> None:
        """`begin` makes a loop, given what is set when a job was cancelled; `threads` are torch's."""
        super().__init__(daemon=True)
        self._begin, self._threads = begin, threads
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._futures: weakref.WeakSet[Future[Reply]] = weakref.WeakSet()
        self._cancels, self._closed = threading.Event(), False

    def take(self, job: Job, future: Future[Reply]) -> None:
        """Run a job; cancelling its future frees its slot before the next step."""
        cancels = self._cancels
        future.add_done_callback(lambda ended: cancels.set() if ended.cancelled() else None)
        self._futures.add(future)
        self._queue.put(job)

    def end(self) -> None:
        """End the thread once what waits has run; what the thread itself calls does not wait for that."""
        self._queue.put(None)
        if self is not threading.current_thread():
            self.join()

    def forgotten(self) -> None:
        """Runs when the engine is forgotten and when Python exits.

        Python kills daemon threads as it exits, and one that is freeing tensors then takes the process
        down with "terminate called without an active exception". So what runs is cancelled, and the
        thread is awaited: it ends at its next step.
        """
        for future in list(self._futures):
            future.cancel()
        self._queue.put(None)
        # An engine's thread may be the one that forgets: itself, or one that waits for the same model.
        if not isinstance(threading.current_thread(), Worker):
            self.join()

    def run(self) -> None:
        """Serve until ended; whatever breaks here, nobody may wait for ever."""
        if self._threads is not None:
            torch.set_num_threads(self._threads)  # counts for this thread alone
        loop: Loop | None = None
        while not self._closed:
            jobs = self._gather()
            try:
                if jobs:
                    loop = loop or self._begin(self._cancels)
                    self._serve(loop, jobs)
            except BaseException as error:  # a model that breaks on its first token, or a mistake of ours
                loop = None
                self._fail(error)
            jobs.clear()

    def _serve(self, loop: Loop, jobs: list[Job]) -> None:
        for job in jobs:
            loop.scheduler.take(job)
        while loop.scheduler.busy:
            loop.step()
            for job in self._newcomers():
                loop.scheduler.take(job)

    def _gather(self) -> list[Job]:
        """Wait for a request, and for others within milliseconds."""
        jobs = self._next(None)
        end = time.monotonic() + LONGEST_WAIT
        while not self._closed and time.monotonic() < end and (more := self._next(QUIET)):
            jobs += more
        return jobs

    def _newcomers(self) -> list[Job]:
        jobs: list[Job] = []
        while not self._closed and (more := self._next(0)):
            jobs += more
        return jobs

    def _next(self, timeout: float | None) -> list[Job]:
        """Who is next in the queue, or nobody: in time, or ever."""
        try:
            job = self._queue.get(timeout=timeout)
        except queue.Empty:
            return []
        self._closed = job is None
        return [job] if job is not None else []

    def _fail(self, error: BaseException) -> None:
        ended = failure(error)
        for future in list(self._futures):
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_exception(ended)


def settle(future: Future[Reply], sequence: Sequence) -> None:
    """Give a sequence's end to who waits; a cancelled future tells those who wait for several at once."""
    if (future.done() and not future.cancelled()) or not future.set_running_or_notify_cancel():
        return
    if sequence.error is not None:
        future.set_exception(sequence.error)
        return
    try:
        future.set_result(sequence.reply())
    except Exception as error:  # the engine's thread must outlive whatever a reply breaks on
        future.set_exception(failure(error))
