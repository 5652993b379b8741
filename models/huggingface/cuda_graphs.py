"""Decoding steps on CUDA without launching each kernel again: a CUDA graph for each shape of a step.

A step of a 7B model on a large accelerator is some hundred kernels of a few microseconds, and launching them from
Python takes several times as long. A graph is captured once its shape has occurred a few times, compared with the
usual step, and replayed from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from sottovoce.core.any_types import Untyped
from sottovoce.models.huggingface.passes import FINAL, Pass, Reading

WARM = 8  # steps of a shape before it is captured
MAX_GRAPHS = 32  # maximum number of graphs; each keeps the activations of a step
TOLERANCE = 3e-2  # of the largest logit: far above other orders of bfloat16 sums, far below wrong logits
Forward = Callable[[Reading, Sequence[int]], Pass]
Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class _Graph:
    """A captured step: its input and output tensors."""

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
        self._pool: Untyped = None

    def step(self, reading: Reading, layers: Sequence[int]) -> Pass | None:
        """Return a step made by its graph; None if it must be made in the usual way.

        That is the case before its shape has occurred often enough, and if the graph could not be captured or gave
        other numbers.
        """
        key = _key(reading)
        self._counts[key] += 1
        if key not in self._graphs and self._counts[key] >= WARM:
            self._let_go(key)
            self._graphs[key] = self._verified(reading)
        graph = self._graphs.get(key)
        return graph.replay(reading, layers) if graph else None

    def _let_go(self, key: Key) -> None:
        """Drop graphs of a KV cache that no longer exists, and the oldest graph if there are too many."""
        self._graphs = {known: graph for known, graph in self._graphs.items() if known[0] == key[0]}
        self._counts = Counter({known: count for known, count in self._counts.items() if known[0] == key[0]})
        if len(self._graphs) >= MAX_GRAPHS:
            first = next(iter(self._graphs))
            del self._graphs[first], self._counts[first]
        if not any(self._graphs.values()):
            self._pool = None  # freed with its last graph, and torch (2.11) cannot capture into such a pool

    def _verified(self, reading: Reading) -> _Graph | None:
        try:
            graph = self._capture(reading)
            replayed, expected = graph.replay(reading, ()).logits, self._forward(reading, ()).logits
        except Exception:  # what cannot be captured (a sync with the host, memory) is computed as usual
            torch.cuda.synchronize(reading.inputs.device)
            return None
        return graph if (replayed - expected).abs().max() <= TOLERANCE * expected.abs().max() else None

    def _capture(self, reading: Reading) -> _Graph:
        copies = {name: getattr(reading, name).clone() for name in ("inputs", "positions", "columns", "span")}
        static, device = replace(reading, **copies), reading.inputs.device
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            self._forward(static, self._layers)  # libraries initialize themselves outside the graph
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads may copy payloads meanwhile: only this thread's calls are captured and checked.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            output = self._forward(static, self._layers)
        self._pool = graph.pool()
        return _Graph(graph, static, output)


def _key(reading: Reading) -> Key:
    """Return the memory of the KV cache first, then everything else that is fixed in a graph."""
    where = tuple((tensor.data_ptr(), tensor.stride()) for tensor in reading.window)
    return (where, tuple(reading.inputs.shape), reading.inputs.dtype, len(reading.span), reading.plain)
