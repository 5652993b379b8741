"""Decoding steps on CUDA without launching each kernel anew: a graph for each shape of a step.

A step of a 7B model on a large accelerator is some hundred kernels of a few microseconds, and
launching them from Python takes several times as long. A graph is captured once its shape has come
up a few times, is tried against the step as ever, and is replayed from then on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sottovoce.models.huggingface.passes import FINAL, Pass, Reading

WARM = 8  # steps of a shape before it is captured
MOST = 32  # graphs; each holds the activations of a step
TOLERANCE = 3e-2  # of the largest logit: far above other orders of bfloat16 sums, far below another row's logits
Forward = Callable[[Reading, Sequence[int]], Pass]
Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class _Graph:
    """A captured step: where its inputs are put and its outputs appear."""

    graph: torch.cuda.CUDAGraph
    reading: Reading
    made: Pass

    def replay(self, reading: Reading, layers: Sequence[int]) -> Pass:
        """Make the step; the next replay overwrites its outputs, so they are copied."""
        for static, given in (
            (self.reading.inputs, reading.inputs),
            (self.reading.positions, reading.positions),
            (self.reading.columns, reading.columns),
        ):
            static.copy_(given)
        self.graph.replay()
        return Pass(self.made.logits.clone(), {layer: self.made.states[layer].clone() for layer in layers})


class Captured:
    """The graphs of one model's steps; one thread at a time uses them."""

    def __init__(self, forward: Forward, layers: int) -> None:
        """Capture nothing yet; `forward` makes a step of the model's layers."""
        self._forward = forward
        self._layers = [*range(layers), FINAL]
        self._graphs: OrderedDict[Key, _Graph | None] = OrderedDict()
        self._counts: dict[Key, int] = {}
        self._pool: Any = None  # Any: torch's handle of a memory pool

    def step(self, reading: Reading, layers: Sequence[int]) -> Pass | None:
        """A step by its graph; None where it must be made as ever.

        That is before its shape came up often enough, and where the graph could not be captured or gave
        other numbers.
        """
        key = _key(reading)
        if key not in self._graphs:
            self._consider(key, reading)
        graph = self._graphs.get(key)
        if graph is None:
            return None
        self._graphs.move_to_end(key)
        return graph.replay(reading, layers)

    def _consider(self, key: Key, reading: Reading) -> None:
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count < WARM:
            return
        self._drop(key)
        try:
            graph = self._capture(reading)
            self._graphs[key] = graph if self._agrees(graph, reading) else None
        except Exception:  # whatever cannot be captured (a host's look at a number, memory) is computed as ever
            torch.cuda.synchronize(reading.inputs.device)
            self._graphs[key] = None

    def _drop(self, key: Key) -> None:
        """Let go of graphs over a KV cache that is gone, and of the one that was used longest ago."""
        for other in [other for other in self._graphs if other[0] != key[0]]:
            del self._graphs[other]
        self._counts = {other: count for other, count in self._counts.items() if other[0] == key[0]}
        while len(self._graphs) >= MOST:
            self._graphs.popitem(last=False)

    def _capture(self, reading: Reading) -> _Graph:
        static = Reading(
            reading.inputs.clone(),
            reading.positions.clone(),
            reading.columns.clone(),
            reading.span.clone(),
            reading.window,
            reading.plain,
        )
        device = reading.inputs.device
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            self._forward(static, self._layers)  # libraries set themselves up outside the graph
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads may copy payloads meanwhile: only this one's calls are captured, and checked.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            made = self._forward(static, self._layers)
        self._pool = graph.pool()
        return _Graph(graph, static, made)

    def _agrees(self, graph: _Graph, reading: Reading) -> bool:
        found, expected = graph.replay(reading, ()).logits, self._forward(reading, ()).logits
        return bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max())


def _key(reading: Reading) -> Key:
    """The KV cache's memory first; then what else is fixed in a graph."""
    where = tuple((tensor.data_ptr(), tensor.stride()) for tensor in reading.window)
    return (where, tuple(reading.inputs.shape), reading.inputs.dtype, len(reading.span), reading.plain)
