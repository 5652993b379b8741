"""How many of an engine's slots are busy while more requests wait than it has, their replies of lengths 1:10."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.loaded_models import with_engine
from benchmarks.measuring import Asked, Table, percent
from sottovoce.models import Ids, Request, Statistics, Stop

SLOTS = (8, 16)
REQUESTS = 256
SHORT, LONG = 10, 100  # new tokens: half of the requests each, shuffled
PROMPT = 24  # tokens


def tables(asked: Asked) -> Iterator[Table]:
    """The busy share by number of slots."""
    table, requests = Table(), mixed(asked.most(REQUESTS, 40))
    table.add(f"{len(requests)} requests of {SHORT} or {LONG} new tokens", *(f"{n} slots" for n in SLOTS), "aim")
    found = [busy(asked, n, requests) for n in SLOTS]
    table.add("slots busy, until the queue is empty", *(percent(queued) for queued, _ in found), "90 %")
    table.add("slots busy, to the last reply", *(percent(whole) for _, whole in found))
    yield table


def mixed(n: int) -> list[Request]:
    """Requests of two lengths in a fixed random order."""
    lengths = [SHORT, LONG] * (n // 2)
    random.Random(0).shuffle(lengths)
    prompts = [tuple(10 + (7 * i + 13 * j) % 500 for j in range(PROMPT)) for i in range(n)]
    return [Request((Ids(prompt),), Stop(new)) for prompt, new in zip(prompts, lengths, strict=True)]


def busy(asked: Asked, slots: int, requests: list[Request]) -> tuple[float, float]:
    """Slots that decoded, of all slots in all steps: while anybody waited, and to the end of the last reply."""
    engine = with_engine(asked.loaded, threads=asked.threads, reuse=False, max_batch=slots).engine
    seen: list[Statistics] = []

    def left(_: Any) -> None:  # Any: a future
        if engine.statistics.requests >= len(requests) - slots and not seen:
            seen.append(replace(engine.statistics))

    futures = [engine.submit(request) for request in requests]
    for future in futures:
        future.add_done_callback(left)
    for future in futures:
        future.result()
    queued, whole = (each.stepped / (each.steps * slots) for each in (seen[0], engine.statistics))
    return queued, whole
