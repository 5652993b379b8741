"""Linear layers in float32 whose weights lie beside them once more, in the order that oneDNN's products read.

torch multiplies by MKL, which goes through a weight anew for every few rows: on CPUs that are not its
maker's own, oneDNN with a reordered weight takes half the time at 4 to 16 rows, and no more at others. Of fewer than 4
rows it reads the weight more slowly than of 5, so these get rows of zeros beside them.
The weight itself stays where it was, for whoever reads, trains or changes it; so a model takes twice
its memory, and larger ones are left as they are.
"""

from __future__ import annotations

from typing import TypeGuard

import psutil
import torch
from torch import nn

SHARE = 1 / 8  # of the machine's memory: what reordered weights of one model may take
SMALLEST = 20_000_000  # parameters: a product of fewer is mostly its call, and oneDNN's takes longer

FEWEST = 5  # rows of a product


class ReorderedLinear(nn.Linear):
    """A linear layer that shares its parameters with the one it was made of."""

    def __init__(self, linear: nn.Linear) -> None:
        """Take over weight and bias; they are reordered at the first product."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_parameter("weight", linear.weight)  # type: ignore[arg-type]  # a parameter
        self.register_parameter("bias", linear.bias)
        self.training = linear.training
        self._reordered: tuple[tuple[int, int], torch.Tensor] | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(..., in) -> (..., out); where gradients are asked for, as any linear layer."""
        weight, bias = self._parameters["weight"], self._parameters["bias"]  # `self.weight` takes Python a microsecond
        assert weight is not None, "a linear layer has one"
        if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
            return super().forward(input)
        rows = input.reshape(-1, self.in_features)
        n = rows.shape[0]
        if n < FEWEST:
            rows = nn.functional.pad(rows, (0, 0, 0, FEWEST - n))
        made: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._order(weight), bias, "none", [], "")
        return made[:n].view(*input.shape[:-1], self.out_features)

    def _order(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight, reordered; anew where it was replaced or changed in place."""
        key = (id(weight), 0 if weight.is_inference() else weight._version)
        if self._reordered is None or self._reordered[0] != key:
            self._reordered = key, torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        return self._reordered[1]

    def forget(self) -> None:
        """Reorder anew at the next product: a change by way of `weight.data` shows nowhere."""
        self._reordered = None

    def __getstate__(self) -> dict[str, object]:
        """Without the reordered weight, which cannot be copied."""
        return self.__dict__ | {"_reordered": None}


def reorder(model: nn.Module, *, least: int = SMALLEST, most: int | None = None) -> None:
    """Replace the linear layers in float32 on the CPU, if together they have `least` to `most` values.

    `most` is what an eighth of the machine's memory holds where nobody says, or half of what is free of it.
    """
    found = {name: each for name, each in model.named_modules() if _fits(each)}
    values = sum(each.weight.numel() for each in found.values())
    if available() and least <= values <= (_room() if most is None else most):
        for name, linear in found.items():
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, ReorderedLinear(linear))


def _fits(module: nn.Module) -> TypeGuard[nn.Linear]:
    """One of torch's own, no kind of it: quantised ones multiply in another way."""
    return type(module) is nn.Linear and (module.weight.dtype, module.weight.device.type) == (torch.float32, "cpu")


def _room() -> int:
    memory = psutil.virtual_memory()
    return int(min(SHARE * memory.total, memory.available / 2)) // torch.float32.itemsize


def reordered_bytes(model: nn.Module) -> int:
    """What the reordered weights of a model take, besides the weights themselves."""
    return sum(
        each.weight.numel() * each.weight.itemsize for each in model.modules() if isinstance(each, ReorderedLinear)
    )


def available() -> bool:
    """Whether this torch has oneDNN and its operators, which are not among what it documents."""
    operators = ("_linear_pointwise", "_reorder_linear_weight")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operators)
