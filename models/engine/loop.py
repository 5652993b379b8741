"""The one decoding loop, by continuous batching: schedule, run, postprocess; and the thread that takes its steps.

The thread does not know the engine, so that a forgotten one is freed.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable

import torch
from transformers import PreTrainedTokenizerBase

from sottovoce.errors import EngineError
from sottovoce.models.engine.cache_manager import Limits
from sottovoce.models.engine.request import Statistics
from sottovoce.models.engine.runner import Batch, Made, Runner
from sottovoce.models.engine.scheduler import Scheduler
from sottovoce.models.engine.sequence import Job, Sequence, failure
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.unsound import unsound

LONGEST_END = 10.0  # seconds that a finalizer waits for the thread of a forgotten engine
QUIET = 0.001  # seconds without a newcomer after which an idle engine begins
LONGEST_WAIT = 0.01  # seconds after which it begins whatever still comes


class Loop:
    """Requests on one network, pass by pass."""

    def __init__(
        self, network: Network, tokenizer: PreTrainedTokenizerBase, limits: Limits, statistics: Statistics
    ) -> None:
        self.scheduler = Scheduler(network, tokenizer, limits, statistics)
        self._runner = Runner(network, exact=limits.exact, slots=limits.slots)
        self._network = network
        self._looked: tuple[int, str] | None = None

    @torch.inference_mode()
    def step(self) -> None:
        """Make one pass with whoever is next."""
        batch = self.scheduler.schedule()
        if batch.sequences:
            try:
                made = self._runner.run(batch, self.scheduler.caches.kv)
            except Exception as error:  # whatever breaks in a model's own code must reach its request, and no other
                self.scheduler.retry(batch.sequences, error)
            else:
                self._postprocess(batch, made)
        self.scheduler.rest()

    def _postprocess(self, batch: Batch, made: Made) -> None:
        """Each takes what came of it; those that have ended leave."""
        self.scheduler.count(batch)
        for i, (sequence, taken) in enumerate(zip(batch.sequences, batch.takes, strict=True)):
            sequence.read(taken)
            choice = made.choices.get(i)
            if choice is None:
                continue
            if sequence.filled == sequence.length and choice.sound:  # its prompt left sound numbers
                self.scheduler.remember(sequence, replied=False)
            try:
                if not choice.sound:
                    raise self._not_finite(sequence)
                sequence.see(i, made.states)
                sequence.keep(choice)
            except Exception as error:  # not finite, or a listener's own: it ends its own request
                sequence.fail(error)
        for sequence in batch.sequences:
            if sequence.ended:
                self.scheduler.finish(sequence)

    def _not_finite(self, sequence: Sequence) -> EngineError:
        """What is wrong with the weights, if anything is, else what else it may be; they are looked at once a state."""
        if self._looked is None or self._looked[0] != self._network.version:
            self._looked = self._network.version, unsound(self._network.model)
        advice = "check the weights, the dtype, and the size of the deltas or rows that were fed in"
        why = self._looked[1] or advice
        return EngineError(f"the model's logits were not finite after {sequence.n} new tokens; {why}")


class Worker(threading.Thread):
    """Steps a loop as long as there is anything to do, and waits for more until it is ended."""

    def __init__(self, begin: Callable[[], Loop], threads: int | None) -> None:
        """`begin` makes a loop; `threads` are torch's."""
        super().__init__(daemon=True)
        self._begin, self._threads = begin, threads
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._jobs: weakref.WeakSet[Job] = weakref.WeakSet()
        self._closed = False

    def take(self, job: Job) -> None:
        """Run a job; cancelling its future frees its slot before the next step."""
        self._jobs.add(job)
        self._queue.put(job)

    def end(self, timeout: float | None = None) -> None:
        """End the thread once what waits has run; what an engine's thread itself calls does not wait for that."""
        self._queue.put(None)
        # A thread that forgets an engine may be that engine's own, or one that waits for the same model.
        if not isinstance(threading.current_thread(), Worker):
            self.join(timeout)

    def forgotten(self) -> None:
        """Runs when the engine is forgotten and when Python exits.

        Python kills daemon threads as it exits, and one that is freeing tensors then takes the process
        down with "terminate called without an active exception". So what runs is cancelled, and the
        thread is awaited: it ends at its next step. Not for ever: a finalizer may run in a thread that
        holds what the other waits for, such as the lock of a module that is being imported.
        """
        for job in list(self._jobs):
            job.future.cancel()
        self.end(LONGEST_END)

    def run(self) -> None:
        """Serve until ended; whatever breaks here, nobody may wait for ever."""
        if self._threads is not None:
            torch.set_num_threads(self._threads)  # counts for this thread alone
        loop: Loop | None = None
        while True:
            jobs = self._gather(busy=loop is not None and loop.scheduler.busy)
            try:
                if jobs:
                    loop = loop or self._begin()
                    loop.scheduler.waiting.extend(jobs)
                if loop and loop.scheduler.busy:
                    loop.step()
                elif self._closed:
                    break
            except BaseException as error:  # a model that breaks on its first token, or a mistake of ours
                self._fail(error)
                loop = None
            jobs.clear()  # or they were held while the thread waits

    def _gather(self, *, busy: bool) -> list[Job]:
        """Who came meanwhile; where nobody runs, wait for one, and for others within milliseconds."""
        jobs: list[Job] = []
        timeout, end = 0.0 if busy else None, float("inf")
        while not self._closed and time.monotonic() < end:
            try:
                job = self._queue.get(timeout=timeout)
            except queue.Empty:
                break
            if job is None:
                self._closed = True
            else:
                jobs.append(job)
            if not busy and len(jobs) == 1:
                timeout, end = QUIET, time.monotonic() + LONGEST_WAIT
        return jobs

    def _fail(self, error: BaseException) -> None:
        ended = failure(error)
        for job in list(self._jobs):
            job.settle(ended)
