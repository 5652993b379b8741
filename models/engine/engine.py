"""One owner of a shared model: concurrent requests, sync and async, are sequences of one thread's batch.

A request is admitted as soon as there is room, also while others decode. One that is cancelled frees
its slot before the next step; one that fails inside the model fails alone; see `scheduler`.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from sottovoce.models.engine.cache_manager import Limits
from sottovoce.models.engine.check import check
from sottovoce.models.engine.keys import chain, position_keys
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.request import Reply, Request
from sottovoce.models.engine.sequence import Job
from sottovoce.models.engine.statistics import Statistics
from sottovoce.models.engine.worker import Worker, settle
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.text import Detokenizer
from sottovoce.sizes import size_of

MAX_BATCH = 64
EXACT_BATCH = 16  # every step of an exact engine has as many sequences, so fewer are cheaper
SAME = "as the other"


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
            max_batch: Sequences at a time; None is 64, or 16 where `exact`.
            threads: torch's, inside the engine's thread; an exact engine has one.
            memory: Bytes for keys and values, prefixes included, also as '4GB'; None is a share of what is free,
                less what other engines on the device may take yet.
            exact: Equal bits whatever else is in the batch, at the price of full batches in every step.
            reuse: Keep what was read, so that equal beginnings of prompts are read once.

        Raises:
            UsageError: `memory` is no size above 0.
        """
        self.network, self._detokenizers = network, detokenizers
        self.limits = Limits(max_batch or (EXACT_BATCH if exact else MAX_BATCH), size_of(memory), exact, reuse)
        self._threads = threads
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self.statistics = Statistics()
        """What it did so far."""

    def submit(self, request: Request, on_text: Callable[[str], None] | None = None) -> Future[Reply]:
        """Queue a request. Cancelling the future frees its slot before the next step.

        `on_text` gets the text so far whenever it grew, from the engine's thread; a request that
        begins anew repeats what was shown.

        Raises:
            ContextOverflow: prompt and longest reply exceed the model's context.
            UsageError: a value of the request does not fit the model.
        """
        check(request, self.network)
        future: Future[Reply] = Future()
        job = self._job(request, future, on_text)
        with self._lock:
            self._worker = self._worker or self._start()
            self._worker.take(job, future)
        return future

    def _job(self, request: Request, future: Future[Reply], on_text: Callable[[str], None] | None) -> Job:
        keys: Sequence[bytes] = ()
        blocks: Sequence[bytes] = ()
        if self.limits.reuse:
            keys = position_keys(request, self.network.table.rows.dtype)
            blocks = chain(keys[:-1], self.limits.block)
        return Job(request, partial(settle, future), keys, blocks, future.done, on_text)

    def _start(self) -> Worker:
        begin = partial(Loop, self.network, self._detokenizers, self.limits, self.statistics)
        worker = Worker(begin, 1 if self.limits.exact else self._threads)
        worker.start()
        weakref.finalize(self, worker.forgotten)
        return worker

    def run(self, request: Request) -> Reply:
        """Run one request to its end. Errors: see `submit`; an EngineError where the model fails on it."""
        return self.submit(request).result()

    def run_all(self, requests: Sequence[Request]) -> list[Reply]:
        """Run many requests, batched; replies come in the order of the requests."""
        return [future.result() for future in [self.submit(request) for request in requests]]

    async def arun(self, request: Request) -> Reply:
        """Run one request; cancelling the task cancels the request."""
        return await asyncio.wrap_future(self.submit(request))

    def forget(self) -> None:
        """Drop what was read before; to be called after the model's weights or parts were changed.

        It holds for all engines on the same network, from their next pass on. Hooks need no call: while
        somebody else's are on the model, every prompt is read anew.
        """
        self.network.forget()

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
            max_batch=None if exact != self.limits.exact else self.limits.slots,
            threads=self._threads,
            memory=self.limits.memory if memory == SAME else memory,
            exact=exact,
            reuse=reuse,
        )
