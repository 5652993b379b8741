"""Rows against threads: what a step costs, so that an engine can be told how many threads serve how many rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.asked import Asked
from benchmarks.decoding import KEPT, NEW, requests
from benchmarks.loaded_models import with_engine
from benchmarks.tables import Table, times
from benchmarks.timing import Run, interleaved

ROWS = (2, 8, 16, 24, 32, 64)


def tables(asked: Asked) -> Iterator[Table]:
    """Milliseconds a step with one thread and with one for each core, prompts included."""
    cores, new = os.cpu_count() or 1, asked.most(NEW)
    engines = {n: with_engine(asked.loaded, threads=n, reuse=False).engine for n in (1, cores)}
    table = Table()
    table.add("rows", "one thread: ms a step", f"{cores} threads: ms a step", f"{cores} threads against one")
    for rows in asked.some(*ROWS):
        each = [replace(request, record=KEPT) for request in requests(rows, new)]
        runs: dict[str, Run] = {str(n): partial(engine.run_all, each) for n, engine in engines.items()}
        found = interleaved(runs, asked.repeats, "wall", warm=2)
        one, more = (f"{1000 * found.median(name) / new:.2f}" for name in ("1", str(cores)))
        table.add(rows, one, more, times(found.speed(str(cores), "1")))
    yield table
