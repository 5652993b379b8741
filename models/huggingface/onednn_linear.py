"""Float32 linear layers with a second copy of their weights, in the order that oneDNN's products read.

torch multiplies with MKL, which reads a weight again for every few rows. On CPUs that are not from MKL's maker, oneDNN
with a reordered weight takes half the time at 4 to 16 rows, and no more at other numbers. oneDNN is slower for fewer
than 5 rows than for 5, so these are padded with rows of zeros. The weight itself stays in place for code that reads,
trains or changes it; so a model takes twice its memory, and larger models are left unchanged.
"""

from __future__ import annotations

from typing import TypeGuard

import psutil
import torch
from torch import nn

SHARE = 1 / 8  # of the machine's memory: limit on the reordered weights of one model
SMALLEST = 20_000_000  # parameters: with fewer, the call dominates a product, and oneDNN's takes longer

FEWEST = 5  # rows of a product


class OneDNNLinear(nn.Linear):
    """A linear layer that shares its parameters with the one it was made from."""

    def __init__(self, linear: nn.Linear) -> None:
        """Take over weight and bias; the weight is reordered at the first product."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_parameter("weight", linear.weight)  # type: ignore[arg-type]  # a parameter
        self.register_parameter("bias", linear.bias)
        self.training = linear.training
        self._onednn_weight: tuple[tuple[int, int], torch.Tensor] | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map inputs (..., in) to outputs (..., out); with gradients, as any linear layer."""
        weight, bias = self._parameters["weight"], self._parameters["bias"]  # `self.weight` takes a microsecond
        assert weight is not None, "a linear layer has one"
        if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
            return super().forward(input)
        rows = input.reshape(-1, self.in_features)
        n = rows.shape[0]
        if n < FEWEST:
            rows = nn.functional.pad(rows, (0, 0, 0, FEWEST - n))
        output: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._order(weight), bias, "none", [], "")
        return output[:n].view(*input.shape[:-1], self.out_features)

    def _order(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the reordered weight; reorder it again if it was replaced or changed in place."""
        key = (id(weight), 0 if weight.is_inference() else weight._version)
        if self._onednn_weight is None or self._onednn_weight[0] != key:
            self._onednn_weight = key, torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        return self._onednn_weight[1]

    def forget(self) -> None:
        """Reorder again at the next product: a change through `weight.data` cannot be detected."""
        self._onednn_weight = None

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the reordered weight, which cannot be copied."""
        return self.__dict__ | {"_onednn_weight": None}


def use_onednn(model: nn.Module, *, least: int = SMALLEST, most: int | None = None) -> None:
    """Replace the float32 linear layers on the CPU if they have `least` to `most` values in total.

    By default `most` is what fits in an eighth of the machine's memory, or in half of its free memory if less.
    """
    linears = {name: module for name, module in model.named_modules() if _fits(module)}
    values = sum(linear.weight.numel() for linear in linears.values())
    if most is None:
        memory = psutil.virtual_memory()
        most = int(min(SHARE * memory.total, memory.available / 2)) // torch.float32.itemsize
    if available() and least <= values <= most:
        for name, linear in linears.items():
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, OneDNNLinear(linear))


def _fits(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Return True for torch's own class only: quantized subclasses multiply in another way."""
    return type(module) is nn.Linear and (module.weight.dtype, module.weight.device.type) == (torch.float32, "cpu")


def onednn_bytes(model: nn.Module) -> int:
    """Return the bytes of a model's reordered weights, not counting the weights themselves."""
    return sum(each.weight.numel() * each.weight.itemsize for each in model.modules() if isinstance(each, OneDNNLinear))


def available() -> bool:
    """Return True if this torch has oneDNN and its operators, which torch does not document."""
    operators = ("_linear_pointwise", "_reorder_linear_weight")
    return torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operators)
