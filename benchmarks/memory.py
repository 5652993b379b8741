"""Peak memory added by recording hidden states, compared with the size of the states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import accumulate
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks.decoding import requests, sde, spoken
from benchmarks.measuring import Options, Table, with_engine
from sottovoce.channels.nl import NL
from sottovoce.models import LoadedModel, Request, Statistics
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.sequence import Job

ROWS, NEW = 8, 256
BYTES = "{:,} bytes".format
WARM = 3


def tables(options: Options) -> Iterator[Table]:
    """Yield the peaks of the same requests with and without recording two layers, up to the last reply."""
    loaded = with_engine(options.loaded, threads=options.threads, reuse=False)
    bare = requests(options.most(ROWS, 2), options.most(NEW, 40))
    kept, recorded = spoken(NL(), bare, loaded), spoken(sde(loaded), bare, loaded)
    for _ in range(WARM):  # one-time allocations do not count
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
    """Return the bytes of the recorded states: one at the prompt's end and one for each new token."""
    positions = sum(len(request.record.layers) * (request.stop.max_new + 1) for request in requests)
    return positions * loaded.network.hidden * loaded.dtype.itemsize


def _peaks(loaded: LoadedModel, requests: Sequence[Request]) -> tuple[int, int]:
    """Return the peaks of allocated bytes: up to the first step, and from there to the last reply.

    The loop runs in this thread, so that torch's profiler sees allocations.
    """
    statistics = Statistics()
    loop = Loop(loaded.network, loaded.tokenizer, loaded.engine.limits, statistics)
    jobs = [Job(request, Future()) for request in requests]
    loop.scheduler.waiting.extend(jobs)
    live, peaks = 0, list[int]()
    for stepped in (False, True):
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as made:
            while loop.scheduler.busy and (stepped or not statistics.steps):
                loop.step()
        results: Any = made.profiler  # Any: torch types none of its events
        events = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
        sums = list(accumulate((event.nbytes() for event in events), initial=live))
        live = sums[-1]
        peaks.append(max(sums))
    assert all(job.future.done() for job in jobs), "every request has its reply"
    return peaks[0], peaks[1]
