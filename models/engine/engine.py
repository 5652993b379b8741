"""The owner of a shared model: concurrent requests, sync and async, are sequences of one thread's batch.

A request is admitted as soon as there is memory for it, even while others decode. A cancelled request frees its
slot before the next step. A request that fails inside the model fails alone; see `scheduler`.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import weakref
from collections import abc
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerBase

from sottovoce.core.bounds import size_of
from sottovoce.core.errors import ContextOverflow, UsageError
from sottovoce.core.event_loop import FORKED
from sottovoce.models.engine.cache import Limits, chain
from sottovoce.models.engine.loop import Loop, Worker
from sottovoce.models.engine.request import Cached, Ids, Reply, Request, Rows, position_keys
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface.family import unscaled
from sottovoce.models.huggingface.network import Network

if TYPE_CHECKING:
    from sottovoce.models.engine.grammar import Grammar

MAX_BATCH = 64
EXACT_BATCH = 16  # every step of an exact engine has as many sequences, so fewer are cheaper


class Engine:
    """An engine that runs requests on one network, many at a time."""

    def __init__(
        self,
        network: Network,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_batch: int | None = None,
        threads: int | None = None,
        memory: int | str | None = None,
        exact: bool = False,
        reuse: bool = True,
        lookup: bool = True,
    ) -> None:
        """Set up an engine; its thread starts at the first request.

        Args:
            network: The model.
            tokenizer: Decodes replies, for stop strings and streaming.
            max_batch: Maximum number of sequences at a time; None means 64, or 16 if `exact`.
            threads: Number of torch threads in the engine's thread; an exact engine uses one.
            memory: Bytes for keys and values, prefixes included, also as '4GB'; None means a share of the free memory,
                less what other engines on the device may still allocate.
            exact: Make results bitwise equal in any batch, at the cost of a full batch in every step.
            reuse: Cache read prompts, so that equal beginnings are read once.
            lookup: Check several tokens in one pass where a reply may repeat an earlier text; not if `exact`.

        Raises:
            UsageError: `memory` is not a size above 0.
        """
        self.network, self._tokenizer = network, tokenizer
        slots = 1 if network.one_by_one else max_batch or (EXACT_BATCH if exact else MAX_BATCH)
        self.limits = Limits(slots, size_of(memory), exact, reuse, lookup)
        self._threads = threads
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self.statistics = Statistics()
        """Counts since the engine started."""
        limits = partial(Engine, max_batch=max_batch, threads=threads, memory=memory)
        self.twin = partial(limits, network, tokenizer, exact=exact, reuse=reuse, lookup=lookup)
        """Makes another engine on the same network: own slots and thread, the same settings unless overridden."""

    def submit(self, request: Request, on_text: abc.Callable[[str], None] | None = None) -> Future[Reply]:
        """Queue a request. Cancelling the future frees its slot before the next step.

        `on_text` is called from the engine's thread with the text so far whenever it grows; a restarted request
        repeats text that was already shown.

        Raises:
            ContextOverflow: the prompt and the longest reply exceed the model's context.
            UsageError: a value of the request does not fit the model, or this process was forked from the engine's.
        """
        if (worker := self._worker) is not None and worker.process != os.getpid():
            raise UsageError(FORKED)
        grammar = self.check(request)
        keys = position_keys(request, self.network.table.rows.dtype) if self.limits.reuse else []
        blocks = chain(keys[:-1], self.limits.block)
        sequence = Sequence(request, self._tokenizer, keys, blocks, grammar, on_text)
        with self._lock:
            if self._worker is None:
                begin = partial(Loop, self.network, self.limits, self.statistics)
                self._worker = Worker(begin, 1 if self.limits.exact else self._threads)
                self._worker.start()
                weakref.finalize(self, self._worker.forgotten)
            self._worker.take(sequence)
        return sequence.future

    def check(self, request: Request) -> Grammar | None:
        """Refuse an invalid request; return the grammar of its response format. A tokenizer's first format takes 2 s.

        Raises:
            ContextOverflow: the prompt and the longest reply exceed the model's context.
            UsageError: a value of the request does not fit the model, or its response format cannot be written.
        """
        need, limit, scaling = request.longest, self.network.context, unscaled(self.network.model)
        thoughts = f", its latent steps {request.steps}," if request.steps else ""
        reply = f"the reply may take {request.stop.max_new}"
        found = f"the prompt has {request.length} tokens{thoughts} and {reply}: {need} in all, but"
        remedy = "shorten the prompt or lower max_tokens"
        if limit is not None and need > limit:
            raise ContextOverflow(f"{found} the model reads {limit}; {remedy}")
        if scaling is not None and need > scaling:
            raise ContextOverflow(
                f"{found} this model (longrope) reads a whole batch differently beyond {scaling}, "
                f"so a reply would depend on the other requests; {remedy}"
            )
        _check_values(request)
        _check_shapes(request, self.network)
        if request.form is None:
            return None
        from sottovoce.models.engine.grammar import grammar_of  # late: few requests have a format

        grammar = grammar_of(request.form, self._tokenizer)
        grammar.check(request.stop)
        return grammar

    def run(self, request: Request) -> Reply:
        """Run one request to its end. Errors: see `submit`, and EngineError if the model fails on it."""
        return self.submit(request).result()

    def run_all(self, requests: abc.Sequence[Request]) -> list[Reply]:
        """Run many requests in batches; replies are in the order of the requests."""
        return [future.result() for future in [self.submit(request) for request in requests]]

    async def arun(self, request: Request) -> Reply:
        """Run one request; cancelling the task cancels the request."""
        return await asyncio.wrap_future(self.submit(request))

    def forget(self) -> None:
        """Drop all cached prefixes. Call this after the model's weights or parts were changed.

        It applies to all engines on the same network, from their next pass on. Hooks need no call: while hooks of other
        code are on the model, every prompt is read in full.
        """
        self.network.forget()

    def close(self) -> None:
        """End the thread after all queued requests and drop its cached prefixes. A later request starts a new one."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()


def _check_values(request: Request) -> None:
    sampling, stop, record = request.sampling, request.stop, request.record
    penalty = sampling.repetition_penalty
    fits = [
        (request.length >= 1, "the prompt is empty; expected at least one token"),
        ("" not in stop.texts, "a stop string is empty; expected at least one character"),
        (stop.max_new >= 0, f"max_new is {stop.max_new}; expected at least 1"),
        (
            stop.max_new > 0 or record.cache or record.layers,
            "max_new is 0; expected at least 1, unless keys, values or states are recorded",
        ),
        (request.steps >= 0, f"the latent steps are {request.steps}; expected 0 or more"),
        (0 <= sampling.temperature < math.inf, f"temperature is {sampling.temperature}; expected 0 or more"),
        (0 < sampling.top_p <= 1, f"top_p is {sampling.top_p}; expected above 0, at most 1"),
        (sampling.top_k >= 0, f"top_k is {sampling.top_k}; expected 0 (all tokens) or more"),
        (0 < penalty < math.inf, f"repetition_penalty is {penalty}; expected above 0"),
        (0 <= sampling.seed < 2**64, f"seed is {sampling.seed}; expected 0 to 2**64 - 1"),
        (record.top >= 0, f"top is {record.top}; expected 0 or more"),
        (record.sparse >= 0, f"sparse is {record.sparse}; expected 0 or more"),
    ]
    for good, message in fits:
        if not good:
            raise UsageError(message)


def _check_shapes(request: Request, network: Network) -> None:
    count, hidden, width = len(network.layers), network.hidden, network.table.width
    for layer in {*request.record.layers, *(edit.layer for edit in request.edits)}:
        if not 0 <= layer < count:
            raise UsageError(f"layer {layer} is out of range; the model has layers 0 to {count - 1}")
    for edit in request.edits:
        widths = [hidden] if edit.how == "add" else range(1, hidden + 1)
        flat = edit.delta.dim() != 2 or edit.delta.shape[1] not in widths
        if flat or edit.at < 0 or edit.at + len(edit.delta) > request.length:
            raise UsageError(
                f"an edit of shape {tuple(edit.delta.shape)} at position {edit.at} does not fit "
                f"a prompt of {request.length} positions and hidden size {hidden}"
            )
    if any(isinstance(piece, Cached) for piece in request.prompt) or request.record.cache:
        _check_cached(request, network)
    ids = [*request.stop.ids, *request.banned]
    for piece in request.prompt:
        if isinstance(piece, Ids):
            ids += [min(piece.ids, default=0), max(piece.ids, default=0)]
        if isinstance(piece, Rows):
            if piece.rows.dim() != 2 or piece.rows.shape[1] != width:
                raise UsageError(f"embedding rows have shape {tuple(piece.rows.shape)}; expected (n, {width})")
    for id in ids:
        if not 0 <= id < len(network.table):  # on an accelerator it would end the process, not the request
            raise UsageError(f"token id {id} is out of range; the model has ids 0 to {len(network.table) - 1}")


def _check_cached(request: Request, network: Network) -> None:
    """Refuse keys and values of another shape than the model's, and a prompt that ends with them."""
    heads, width = network.cache_shape
    for piece in request.prompt:
        if not isinstance(piece, Cached):
            continue
        n, rest = len(piece), len(network.layers) - len(piece.layers)
        shapes = [tuple(each.shape) for each in (piece.keys, piece.values, piece.first_keys, piece.first_values)]
        expected = [(len(piece.layers), heads, n, width)] * 2 + [(rest, heads, 1, width)] * 2
        without_first = [*expected[:2], *[(rest, heads, 0, width)] * 2]
        if shapes not in (expected, without_first) or not set(piece.layers) <= {*range(len(network.layers))}:
            raise UsageError(
                f"keys and values of layers {piece.layers} have shapes {shapes}; this model needs {expected}"
            )
    read = [piece for piece in request.prompt if len(piece)]
    if read and isinstance(read[-1], Cached):
        raise UsageError("the prompt ends with keys and values; expected at least one token after them")
