"""Decoding steps on CUDA without launching each kernel again: a CUDA graph for each shape of a step.

A step of a 7B model on a large accelerator is some hundred kernels of a few microseconds, and launching them from
Python takes several times as long (7B on an H200: 70 to 98 ms instead of 8). A graph is captured when its shape occurs
for the second time, compared with the usual step, and replayed from then on. Until then a larger captured step serves:
a few more rows and columns cost less than one usual step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from sottovoce.core.any_types import Untyped
from sottovoce.models.huggingface.passes import FINAL, Pages, Pass, Reading

WARM = 2  # the step of a shape that captures it, which makes it twice
PATIENCE = 64  # steps of a shape for which a larger one serves before it is captured itself
MAX_GRAPHS = 32  # maximum number of graphs; each keeps the activations of a step
TOLERANCE = 3e-2  # of the largest logit: far above other orders of bfloat16 sums, far below wrong logits
Forward = Callable[[Reading, Sequence[int]], Pass]
Key = tuple[tuple[object, ...], tuple[int, ...], torch.dtype, int, bool]
Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Graph:
    """A captured step: its input and output tensors.

    It stores the addresses of the KV cache and not the cache itself, so that the cache is freed when the engine drops
    it. It is replayed only if a cache of the same layout has the same addresses.
    """

    graph: torch.cuda.CUDAGraph
    reading: Reading
    output: Pass

    def replay(self, reading: Reading, layers: Sequence[int]) -> Pass:
        """Make the step; return copies, because the next replay overwrites the outputs."""
        for name in ("inputs", "positions", "columns"):
            getattr(self.reading, name).copy_(getattr(reading, name))
        self.graph.replay()
        return Pass(self.output.logits.clone(), {layer: self.output.states[layer].clone() for layer in layers})


class CudaGraphs:
    """The CUDA graphs of one model's steps; one thread at a time uses them."""

    def __init__(self, forward: Forward, layers: int) -> None:
        """Capture nothing yet; `forward` makes a step of the model's layers."""
        self._forward, self._layers = forward, [*range(layers), FINAL]
        self._graphs: dict[Key, _Graph | None] = {}
        self._counts: Counter[Key] = Counter()
        self._served: Counter[tuple[object, ...]] = Counter()
        """Steps that a larger shape served, by memory, shape and kind of inputs."""
        self._pool: Untyped = None

    def step(self, reading: Reading, layers: Sequence[int]) -> Pass | None:
        """Return a step made by its graph; None if it must be made in the usual way.

        That is the case before its shape has occurred often enough, and if the graph could not be captured or gave
        other numbers.
        """
        inputs = reading.inputs
        # The memory of the KV cache first, then everything else that is fixed in a graph.
        key = (_where(reading.window), tuple(inputs.shape), inputs.dtype, len(reading.span), reading.plain)
        self._counts[key] += 1
        if key not in self._graphs and self._counts[key] >= WARM:
            self._let_go(key)
            usual = self._forward(reading, self._layers)  # also lets libraries initialize themselves outside the graph
            self._graphs[key] = self._verified(reading, usual.logits)
            return usual
        graph = self._graphs.get(key)
        return graph.replay(reading, layers) if graph else None

    def serving(self, shape: Shape, window: Pages, inputs: torch.Tensor) -> Shape:
        """Return the captured shape that serves a step: the smallest shape with room for it, or the step's own."""
        where, kind = _where(window), (inputs.dtype, inputs.shape[1:])
        found = []
        for (memory, size, dtype, columns, plain), graph in self._graphs.items():
            room = size[0] >= shape[0] and columns >= shape[1]
            if graph and room and memory == where and (dtype, size[2:]) == kind and not plain:
                found.append((columns, size[0]))
        columns, rows = min(found, default=shape[::-1])
        if (rows, columns) != shape:
            self._served[where, *shape, kind] += 1
        return (rows, columns) if self._served[where, *shape, kind] < PATIENCE else shape

    def _let_go(self, key: Key) -> None:
        """Drop graphs of a KV cache that no longer exists, and the oldest graph if there are too many."""
        self._graphs = {known: graph for known, graph in self._graphs.items() if known[0] == key[0]}
        for counter in (self._counts, self._served):
            for known in [known for known in counter if known[0] != key[0]]:
                del counter[known]
        if len(self._graphs) >= MAX_GRAPHS:
            first = next(iter(self._graphs))
            del self._graphs[first], self._counts[first]
        if not any(self._graphs.values()):
            self._pool = None  # freed with its last graph, and torch (2.11) cannot capture into such a pool

    def _verified(self, reading: Reading, expected: torch.Tensor) -> _Graph | None:
        try:
            graph = self._capture(reading)
            replayed = graph.replay(reading, ()).logits
        except Exception:  # what cannot be captured (a sync with the host, memory) is computed as usual
            torch.cuda.synchronize(reading.inputs.device)
            return None
        return graph if (replayed - expected).abs().max() <= TOLERANCE * expected.abs().max() else None

    def _capture(self, reading: Reading) -> _Graph:
        copies = {name: getattr(reading, name).clone() for name in ("inputs", "positions", "columns", "span")}
        static = replace(reading, **copies)
        graph = torch.cuda.CUDAGraph()
        # Other threads may copy payloads meanwhile: only this thread's calls are captured and checked.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            output = self._forward(static, self._layers)
        self._pool = graph.pool()
        return _Graph(graph, replace(static, window=()), output)


def _where(window: Pages) -> tuple[object, ...]:
    return tuple((tensor.data_ptr(), tensor.stride()) for tensor in window)
