"""How many of an engine's slots are busy while more requests wait than it has, their replies of lengths 1:10."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.asked import Asked
from benchmarks.loaded_models import with_engine
from benchmarks.tables import Table, percent
from sottovoce.models import Ids, LoadedModel, Request, Statistics, Stop

SLOTS = (8, 16)
REQUESTS = 256
SHORT, LONG = 10, 100  # new tokens: half of the requests each, shuffled
PROMPT = 24  # tokens


@dataclass
class Busy:
    """Slots that decoded, of all slots in all steps."""

    queued: float
    """While anybody waited."""
    whole: float
    """To the end of the last reply, with ever fewer rows."""


def tables(asked: Asked) -> Iterator[Table]:
    """The busy share by number of slots."""
    table, each = Table(), mixed(asked.most(REQUESTS, 40))
    table.add(f"{len(each)} requests of {SHORT} or {LONG} new tokens", *(f"{n} slots" for n in SLOTS), "aim")
    loaded_models = [with_engine(asked.loaded, threads=asked.threads, reuse=False, max_batch=n) for n in SLOTS]
    found = [busy(loaded, n, each) for loaded, n in zip(loaded_models, SLOTS, strict=True)]
    table.add("slots busy, until the queue is empty", *(percent(one.queued) for one in found), "90 %")
    table.add("slots busy, to the last reply", *(percent(one.whole) for one in found))
    yield table


def mixed(n: int) -> list[Request]:
    """Requests of two lengths in a fixed random order."""
    lengths = [SHORT, LONG] * (n // 2)
    random.Random(0).shuffle(lengths)
    prompts = [tuple(10 + (7 * i + 13 * j) % 500 for j in range(PROMPT)) for i in range(n)]
    return [Request((Ids(prompt),), Stop(new)) for prompt, new in zip(prompts, lengths, strict=True)]


def busy(loaded: LoadedModel, slots: int, requests: list[Request]) -> Busy:
    """Measured by the engine's own statistics; the queue is empty when no more are left than there are slots."""
    engine, seen = loaded.engine, list[Statistics]()

    def left(_: Any) -> None:  # Any: a future
        if engine.statistics.requests >= len(requests) - slots and not seen:
            seen.append(replace(engine.statistics))

    futures = [engine.submit(request) for request in requests]
    for future in futures:
        future.add_done_callback(left)
    for future in futures:
        future.result()
    return Busy(_share(seen[0], slots), _share(engine.statistics, slots))


def _share(statistics: Statistics, slots: int) -> float:
    return statistics.stepped / (statistics.steps * slots)
