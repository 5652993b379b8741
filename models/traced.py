"""Decoding steps without the Python around them: the operations of a small model's step, recorded once.

A step of a small model on a CPU is hundreds of operations of a few microseconds each, and as much
time again is spent in the modules that call them. A recording (`torch.jit.trace`) makes the same
calls with the same numbers: it is used only after it gave equal bits in shapes other than its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from sottovoce.models.layers import Hooks
from sottovoce.models.passes import FINAL, Pass, Reading
from sottovoce.models.slots import Kind

WARM = 64  # steps of a kind before it is recorded: that costs as much as a hundred recorded ones save
SHAPES = ((3, 9), (1, 5), (4, 70))  # rows and columns: of the recording, and of its trials
Forward = Callable[[Reading, Sequence[int]], Pass]
Tensors = tuple[torch.Tensor, ...]
_JIT: Any = torch.jit  # Any: torch types little of it


class Traced:
    """The recordings of one model's steps; one thread at a time uses them."""

    def __init__(self, model: nn.Module, forward: Forward, kinds: Sequence[Kind], layers: int) -> None:
        """Record nothing yet; `forward` makes a step of the model's layers, hooks and all."""
        self._forward, self._kinds = forward, kinds
        self._layers = [*range(layers), FINAL]
        self._embedding = next(iter(model.get_input_embeddings().parameters()))  # type: ignore[operator]
        self._hooks = Hooks(model)
        self._steps: dict[tuple[bool, bool], Callable[..., Tensors] | None] = {}
        self._counts: dict[tuple[bool, bool], int] = {}

    def step(self, reading: Reading, layers: Sequence[int]) -> Pass | None:
        """A step by its recording, with the states of `layers` and others; None where it must be made as ever.

        That is before it was made often enough, where its recording failed a trial, and while
        somebody else's hooks are on the model.
        """
        kind = (reading.plain, reading.inputs.dim() == 3)
        if kind not in self._steps:
            self._consider(kind)
        recorded = self._steps.get(kind)
        if recorded is None or self._hooks:
            return None
        with _JIT.optimized_execution(False):  # it would profile, and gain nothing
            outputs = recorded(*_arguments(reading))
        return Pass(outputs[0], dict(zip(self._layers, outputs[1:], strict=True)))

    def _consider(self, kind: tuple[bool, bool]) -> None:
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count >= WARM and not self._hooks:
            try:
                self._steps[kind] = self._record(*kind)
            except Exception:  # whatever cannot be recorded is computed as ever
                self._steps[kind] = None

    def _record(self, plain: bool, as_rows: bool) -> Callable[..., Tensors] | None:
        def step(*arguments: Any) -> Tensors:  # Any: tensors, under tracing
            inputs, positions, columns, span, *window = arguments
            seen = self._forward(Reading(inputs, positions, columns, span, tuple(window), plain), self._layers)
            return (seen.logits, *(seen.states[layer] for layer in self._layers))

        # The tracer tells of sizes that it takes for constants, and torch that tracing is old: the trials
        # show whether that matters. Filters, since a context that ignores them would be other threads' too.
        warnings.filterwarnings("ignore", category=_JIT.TracerWarning)
        warnings.filterwarnings("ignore", message=".*torch.jit.trace", category=DeprecationWarning)
        first, *others = (_arguments(self._example(*shape, plain, as_rows)) for shape in SHAPES)
        with _JIT.optimized_execution(False):  # as above
            recorded: Callable[..., Tensors] = _JIT.trace(step, first, check_trace=False)
            sound = all(_agree(step, recorded, example) for example in (first, *others))
        return recorded if sound else None

    def _example(self, rows: int, columns: int, plain: bool, as_rows: bool) -> Reading:
        generator = torch.Generator().manual_seed(rows)
        table = self._embedding

        def noise(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator)

        window = tuple(
            noise(len(kind.members), rows, kind.heads, columns + 3, kind.width).to(kind.dtype) for kind in self._kinds
        )
        inputs = noise(rows, 1, table.shape[1]).to(table) if as_rows else torch.arange(3, 3 + rows)[:, None]
        last = [columns - 1] * rows if plain else [columns - 1 - i for i in range(rows)]
        positions = torch.tensor([last]).T
        return Reading(inputs, positions, positions.clone(), torch.arange(columns), window, plain)


def _arguments(reading: Reading) -> Tensors:
    return (reading.inputs, reading.positions, reading.columns, reading.span, *reading.window)


def _agree(step: Callable[..., Tensors], recorded: Callable[..., Tensors], example: Tensors) -> bool:
    """Equal bits in all that they put out and write."""
    ours, theirs = (tuple(tensor.clone() for tensor in example) for _ in range(2))
    pairs = zip((*step(*ours), *ours), (*recorded(*theirs), *theirs), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)
