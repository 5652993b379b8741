"""How much of a run is spent inside the model, told by a network that looks at the clock around its passes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from benchmarks.loaded_models import with_engine
from sottovoce.models import LoadedModel, Request
from sottovoce.models.huggingface.layers import Change
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import Pass, Reading

WARM = 1  # runs before the one that counts


class Timed(Network):
    """A network that adds its passes' seconds up."""

    inside = 0.0

    def forward(self, reading: Reading, layers: Sequence[int] = (), edits: Mapping[int, Change] | None = None) -> Pass:
        """As ever, timed."""
        start = time.perf_counter()
        seen = super().forward(reading, layers, edits)
        self.inside += time.perf_counter() - start
        return seen

    def step(self, reading: Reading, layers: Sequence[int] = ()) -> Pass:
        """As ever, timed."""
        start = time.perf_counter()
        seen = super().step(reading, layers)
        self.inside += time.perf_counter() - start
        return seen


def outside(loaded: LoadedModel, threads: int, requests: Sequence[Request]) -> float:
    """The share of the wall time of a batch that is not spent in forward passes."""
    network = Timed(loaded.model, len(loaded.table))
    engine = with_engine(loaded, network=network, threads=threads, reuse=False).engine
    for _ in range(WARM):
        engine.run_all(requests)
    network.inside, start = 0.0, time.perf_counter()
    engine.run_all(requests)
    return 1 - network.inside / (time.perf_counter() - start)
