"""What recording hidden states adds to the peak of memory, against the states themselves."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.decoding import KEPT, requests, sde
from benchmarks.loaded_models import with_engine
from benchmarks.measuring import Asked, Table
from sottovoce.models import LoadedModel, Request, Statistics
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.sequence import Job

ROWS, NEW = 8, 256
BYTES = "{:,} bytes".format
WARM = 3


def tables(asked: Asked) -> Iterator[Table]:
    """Peaks of the same requests with and without two layers recorded, until the last reply is made."""
    loaded = with_engine(asked.loaded, threads=asked.threads, reuse=False)
    bare = requests(asked.most(ROWS, 2), asked.most(NEW, 40))
    kept = [replace(request, record=KEPT) for request in bare]
    recorded = [sde(request, loaded) for request in bare]
    for _ in range(WARM):  # what is made once and kept does not count
        loaded.engine.run_all(recorded)
    words, deltas, states = _peaks(loaded, kept), _peaks(loaded, recorded), _states(loaded, recorded)
    table = Table()
    table.add(f"{len(bare)} rows of {bare[0].stop.max_new} new tokens, without weights", "prompts", "steps", "aim")
    table.add("peak of `nl` with statistics", *map(BYTES, words))
    table.add("peak of `sde` of two layers", *map(BYTES, deltas))
    table.add("layers x states x hidden x bytes", "", BYTES(states))
    added = [(more - less) / states for more, less in zip(deltas, words, strict=True)]
    table.add("what `sde` adds, as a share of that", *(f"{share:.0%}" for share in added), "110 % at most")
    yield table


def _states(loaded: LoadedModel, requests: Sequence[Request]) -> int:
    """Bytes of what is recorded: the state at the prompt's end and one for each new token."""
    positions = sum(len(request.record.layers) * (request.stop.max_new + 1) for request in requests)
    return positions * loaded.network.hidden * loaded.dtype.itemsize


def _peaks(loaded: LoadedModel, requests: Sequence[Request]) -> tuple[int, int]:
    """Bytes of live tensors at their peaks, up to the first step and from there to the last reply.

    The loop takes its steps in this thread, where operations can be watched.
    """
    statistics = Statistics()
    loop = Loop(loaded.network, loaded.tokenizer, loaded.engine.limits, statistics)
    jobs = [Job(request, Future()) for request in requests]
    loop.scheduler.waiting.extend(jobs)
    with LiveBytes() as live:
        while loop.scheduler.busy and not statistics.steps:
            loop.step()
        reading, live.peak = live.peak, live.now
        while loop.scheduler.busy:
            loop.step()
    assert all(job.future.done() for job in jobs), "every request has its reply"
    return reading, live.peak


class LiveBytes(TorchDispatchMode):
    """Counts what operations of this thread make, until it is freed; torch's own counters know a GPU alone."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.now = self.peak = 0
        self._seen: dict[weakref.ref[torch.UntypedStorage], int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],  # Any: an operator, its arguments and what it gives
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator and count what it made."""
        made = func(*args, **(kwargs or {}))
        given = {_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and _storage(leaf) not in given:
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        ref = weakref.ref(storage, self._freed)
        if ref not in self._seen:
            self._seen[ref] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)

    def _freed(self, ref: weakref.ref[torch.UntypedStorage]) -> None:
        self.now -= self._seen.pop(ref)


def _storage(tensor: torch.Tensor) -> int:
    cdata: int = tensor.untyped_storage()._cdata
    return cdata
