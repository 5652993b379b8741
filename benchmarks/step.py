"""The parts of a decoding step: matrix products, attention, and the rest (small operations and Python)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.decoding import requests
from benchmarks.measuring import CLOCKS, Options, Table, with_engine
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import Pass, Reading

BATCHES = (1, 8)
NEW = 8  # tokens of a reply; its last step is measured
TIMES = 10  # repeats of that step
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise", "aten::_weight_int4pack_mm_for_cpu")
ATTENTION = "attention"
PARTS = ("products of weights", "attention", "all else: small operations, Python")


class Watched(Network):
    """A network that stores the input of its last step."""

    reading: Reading

    def step(self, reading: Reading, layers: Sequence[int] = ()) -> Pass:
        """Run a step and store its input."""
        self.reading = reading
        return super().step(reading, layers)


def tables(options: Options) -> Iterator[Table]:
    """Yield the milliseconds of each part, by batch size."""
    found = [_parts(options, batch) for batch in BATCHES]
    table = Table()
    table.add(
        f"a step after 40-120 positions, weights in {options.loaded.format}, ms", *(f"batch {n}" for n in BATCHES)
    )
    for part, *each in zip(PARTS, *found, strict=True):
        table.add(part, *map("{:.1f}".format, each))
    yield table


@torch.inference_mode()
def _parts(options: Options, batch: int) -> list[float]:
    """Return milliseconds of products, attention and the rest.

    The total is timed without the profiler, which slows short operations.
    """
    network = Watched(options.loaded.model, len(options.loaded.table))
    engine = with_engine(options.loaded, network=network, threads=options.threads, reuse=False).engine
    engine.run_all(requests(batch, NEW))
    now, reading = CLOCKS[options.clock], network.reading
    start = now()
    for _ in range(TIMES):
        network.forward(reading)
    whole = 1000 * (now() - start) / TIMES
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(TIMES):
            network.forward(reading)
    found = profiled.key_averages()
    products = _milliseconds([each for each in found if each.key in PRODUCTS])
    attention = _milliseconds([each for each in found if ATTENTION in each.key])
    return [products, attention, max(whole - products - attention, 0.0)]


def _milliseconds(events: Sequence[Any]) -> float:  # Any: torch types its profiler's events in part
    return float(sum(each.self_cpu_time_total for each in events)) / 1000 / TIMES
