"""The one decoding loop, with continuous batching: schedule, run, postprocess; and the thread that runs it.

The thread has no reference to the engine, so that an unused engine is freed.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections import abc
from collections.abc import Callable
from contextlib import suppress

import torch

from sottovoce.core.errors import EngineError
from sottovoce.models.engine.batch import Batch
from sottovoce.models.engine.cache import Limits
from sottovoce.models.engine.runner import Runner, StepOutput
from sottovoce.models.engine.scheduler import Scheduler, Statistics
from sottovoce.models.engine.sequence import Sequence, failure
from sottovoce.models.huggingface.network import Network

LONGEST_END = 10.0  # seconds that a finalizer waits for the thread of a freed engine
QUIET_SECONDS = 0.001  # seconds without a new request after which an idle engine starts
LONGEST_WAIT = 0.01  # seconds after which it starts even if requests keep arriving


class Loop:
    """Requests on one network, pass by pass."""

    def __init__(self, network: Network, limits: Limits, statistics: Statistics, overlap: bool | None = None) -> None:
        """`overlap`: give the device its next pass before the results of this one are read; None does so on a GPU."""
        self.scheduler = Scheduler(network, limits, statistics)
        self._runner = Runner(network, limits.slots if limits.exact else 0)
        self._overlap = (network.device.type == "cuda" if overlap is None else overlap) and not limits.exact
        self._pass_ahead: tuple[Batch, StepOutput] | None = None
        """A pass whose results are not read yet."""

    @torch.inference_mode()
    def step(self) -> None:
        """Read the results of one pass, and give the device the next one before, if it is known already."""
        unread, self._pass_ahead = self._pass_ahead or self._begin(), None
        if unread:
            batch, output = unread
            following = self._follow(batch)
            self._postprocess(batch, output)
            ended = [each for each in dict.fromkeys(batch.chosen) if each.ended]
            if following and not ended:
                self._pass_ahead = batch, following
            elif following:  # those that have ended, late, take nothing of it
                self._postprocess(batch, following)
                ended = [each for each in batch.chosen if each.ended]
            for sequence in ended:
                self.scheduler.finish(sequence)
        self.scheduler.rest()

    def _begin(self) -> tuple[Batch, StepOutput] | None:
        """Run the next pass; None if there is none, or it failed."""
        batch = self.scheduler.schedule()
        if batch.sequences:
            try:
                return batch, self._runner.run(batch, self.scheduler.caches.kv)
            except Exception as error:  # an error in a model's own code must reach its own request, and no other
                self.scheduler.retry(batch.sequences, error)
        return None

    def _follow(self, batch: Batch) -> StepOutput | None:
        """Run the pass after one that is not read yet; None if it is not known yet, or fails: it is run again then."""
        if self._overlap and self.scheduler.steady(batch):
            with suppress(Exception):
                return self._runner.run(batch, self.scheduler.caches.kv, ahead=1)
        return None

    def _postprocess(self, batch: Batch, output: StepOutput) -> None:
        self.scheduler.count(batch)
        for sequence, n in zip(batch.sequences, batch.num_tokens, strict=True):
            sequence.read(1 if batch.drafts else n)
        self._take(batch, output)
        if batch.prompts:
            batch.end()  # that of the decoding sequences goes on
        elif not batch.lasting:
            self.scheduler.end_steps()
        elif not batch.feeds:
            batch.hand_over()

    def _take(self, batch: Batch, output: StepOutput) -> None:
        choices = output.choices
        thoughts: abc.Sequence[torch.Tensor] = () if output.thoughts is None else output.thoughts.unbind()
        finite = [] if output.thoughts is None else output.thoughts.isfinite().all(-1).tolist()
        for i, thought, sound in zip(batch.thinking, thoughts, finite, strict=True):
            sequence = batch.chosen[i]
            if sound:
                self._remember(batch, sequence)
                sequence.think(thought)
            else:
                sequence.fail(_not_finite(sequence))
        if choices is None:
            return
        try:
            ids, best = choices.read()
            if not batch.drafts:
                batch.recent.add(output.states, choices.logits, choices.mean_rows)
        except Exception as error:  # memory may be too short
            for sequence in batch.speakers:
                sequence.fail(error)
            return
        taken: list[int] = []
        for i, (sequence, id, argmax) in enumerate(zip(batch.speakers, ids, best, strict=True)):
            if sequence.error or not batch.is_confirmed(i, taken):
                continue
            try:
                if id == -1:
                    raise _not_finite(sequence)
                self._remember(batch, sequence)
                if batch.before[i]:
                    sequence.read(1)
                sequence.keep(id, argmax, choices.effect(i, id, argmax))
                taken.append(i)
            except Exception as error:  # not finite, or raised by a listener: it ends only its own request
                sequence.fail(error)
        if batch.drafts:
            self._accept(batch, output, choices.logits, taken)
        if batch.recent.full:
            batch.settle()

    def _accept(self, batch: Batch, output: StepOutput, logits: torch.Tensor, taken: abc.Sequence[int]) -> None:
        """Record the positions of a checked batch that hold, and how many of the proposed tokens they are."""
        try:
            batch.recent.add(output.states, logits, owners={i: batch.owners[i] for i in taken})
        except Exception as error:  # memory may be too short
            for sequence in batch.sequences:
                sequence.fail(error)
        self.scheduler.learn(batch, taken)

    def _remember(self, batch: Batch, sequence: Sequence) -> None:
        """Cache a prompt that was read to its end, and gave finite values."""
        if batch.prompts:
            self.scheduler.remember(sequence, replied=False)


def _not_finite(sequence: Sequence) -> EngineError:
    return EngineError(
        f"the model's logits were not finite after {sequence.n} new tokens; check the weights (`models doctor`), the "
        "dtype, and the size of the deltas or rows that were fed in"
    )


class Worker(threading.Thread):
    """The thread that steps a loop while there is work, and waits for more until it is closed."""

    def __init__(self, begin: Callable[[], Loop], threads: int | None) -> None:
        """`begin` makes a loop; `threads` is the number of torch threads."""
        super().__init__(daemon=True)
        self._begin, self._threads = begin, threads
        self._queue: queue.SimpleQueue[Sequence | None] = queue.SimpleQueue()
        self._sequences: weakref.WeakSet[Sequence] = weakref.WeakSet()
        self._closed = False
        self.process = os.getpid()
        """The process that has the thread; a forked one has only this object."""

    def take(self, sequence: Sequence) -> None:
        """Run a sequence; cancelling its future frees its slot before the next step."""
        self._sequences.add(sequence)
        self._queue.put(sequence)

    def end(self, timeout: float | None = None) -> None:
        """End the thread after all queued sequences; a call from an engine's own thread does not wait for that."""
        self._queue.put(None)
        # The thread that drops an engine may be that engine's own, or one that waits for the same model.
        if not isinstance(threading.current_thread(), Worker):
            self.join(timeout)

    def forgotten(self) -> None:
        """Cancel all sequences and end the thread; runs when the engine is freed and when Python exits.

        Python kills daemon threads as it exits, and a thread that is freeing tensors at that moment aborts the
        process with "terminate called without an active exception". So all are cancelled and the thread is
        joined; it ends at its next step. The wait is limited: a finalizer may run in a thread that holds a lock
        that the other one needs, such as the import lock of a module.
        """
        for sequence in list(self._sequences):
            sequence.future.cancel()
        self.end(LONGEST_END)

    def run(self) -> None:
        """Serve sequences until closed; on any error, fail all of them so that no caller waits forever."""
        if self._threads is not None:
            torch.set_num_threads(self._threads)  # applies to this thread alone
        loop: Loop | None = None
        while True:
            arrived = self._gather(busy=loop is not None and loop.scheduler.busy)
            try:
                if arrived:
                    loop = loop or self._begin()
                    loop.scheduler.waiting.extend(arrived)
                if loop and loop.scheduler.busy:
                    loop.step()
                elif self._closed:
                    break
            except BaseException as error:  # a model that fails on its first token, or a bug of ours
                ended = failure(error)
                for sequence in list(self._sequences):
                    sequence.settle(ended)
                loop = None
            arrived.clear()  # or they would stay in memory while the thread waits

    def _gather(self, *, busy: bool) -> list[Sequence]:
        """Return the sequences that have arrived; if idle, wait for one, and then a few milliseconds for more."""
        idle = not busy and not self._closed
        arrived = [self._queue.get()] if idle else []
        end = time.monotonic() + LONGEST_WAIT
        while True:
            if idle:  # get(timeout=...) may block forever: Python 3.11 waits without end past its deadline.
                time.sleep(QUIET_SECONDS)
            more = [self._queue.get() for _ in range(self._queue.qsize())]
            arrived += more
            if not idle or not more or time.monotonic() > end:
                break
        self._closed = self._closed or None in arrived
        return [each for each in arrived if each is not None]
