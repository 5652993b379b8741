"""The linear maps of a loaded model, packed one after another in its place; which were, from what, and which not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from sottovoce.models.huggingface.packed import GROUP, ROWS, Grid, Packed, Packing
from sottovoce.models.huggingface.reordered import ReorderedLinear

LEVELS_8, LEVELS_4 = 127, 15  # steps from zero, and from the least to the most
PLAIN = (nn.Linear, ReorderedLinear, Conv1D)  # a class of a family's own may compute otherwise


class Own(Protocol):
    """What is known of the blocks that a model's matrices were dequantised from, by names in its state dict."""

    def kind(self, name: str) -> str | None:
        """Their type; None where a matrix had none."""

    def grid(self, name: str) -> Grid | None:
        """A matrix's own numbers, if they were kept: (n, k), or of two planes (n, 2k)."""


def pack(model: PreTrainedModel, packing: Packing, own: Own) -> None:
    """Replace the linear maps of a model, its head among them, by packed ones; what a kernel cannot take stays.

    One matrix after another, so that no second copy of the weights is needed. The embedding table stays as
    it is: a head that was tied to it gets a matrix of its own.
    """
    table = model.get_input_embeddings().weight
    for path, module in [*model.named_modules()]:
        if fits(module):
            made = _packed(module, f"{path}.weight", packing, own)
            made.tied = module.weight is table
            model.set_submodule(path, made)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # else what stays holds the whole file in memory that it came from


def matrices(model: nn.Module) -> dict[str, torch.Tensor]:
    """The matrices (n, k) of a model's linear maps, by their names in its state dict."""
    return {f"{path}.weight": _matrix(each) for path, each in model.named_modules() if type(each) in PLAIN}


def fits(module: nn.Module) -> bool:
    """Whether a kernel takes the matrix of a module."""
    if type(module) not in PLAIN:
        return False
    rows, columns = _matrix(module).shape
    return rows % ROWS == 0 and columns % GROUP == 0


def _matrix(module: nn.Module) -> torch.Tensor:
    """(n, k), of what maps k inputs to n outputs; GPT-2's keeps it the other way round."""
    weight: torch.Tensor = module.weight.detach()  # type: ignore[operator]  # a parameter
    return weight.T if isinstance(module, Conv1D) else weight


def _packed(module: nn.Module, name: str, packing: Packing, own: Own) -> Packed:
    matrix, bias, kind = _matrix(module), getattr(module, "bias", None), own.kind(name)
    bias = None if bias is None else bias.detach()
    grid, origin = own.grid(name), f"own blocks of {kind}"
    if grid is None or (packing == "int8" and grid.q.shape == matrix.shape):  # 4 bits are fewer than were asked for
        rounded = rounded_to_int8 if packing == "int8" else rounded_to_int4
        grid, origin = rounded(matrix.float()), f"rounded from {kind or str(matrix.dtype).removeprefix('torch.')}"
    return Packed(grid, packing, bias, origin, planes=grid.q.shape[1] // matrix.shape[1])


def rounded_to_int8(matrix: torch.Tensor) -> Grid:
    """Two planes of w = q * scale with q from -127 to 127, as Q8_0 has it, the scale in bfloat16 before that."""
    groups = matrix.unflatten(1, (-1, GROUP))  # (n, k / GROUP, GROUP)
    scale = (groups.abs().amax(2) / LEVELS_8).bfloat16()
    q = (groups / _not_zero(scale)[..., None]).round_().clamp_(-LEVELS_8, LEVELS_8)
    return Grid.of_bytes(q.flatten(1).to(torch.int8), scale)


def rounded_to_int4(matrix: torch.Tensor) -> Grid:
    """The grid from the least to the most of each group, scale and zero in bfloat16 before values are rounded to it."""
    groups = matrix.unflatten(1, (-1, GROUP))  # (n, k / GROUP, GROUP)
    least, most = groups.aminmax(dim=2)
    scale = ((most - least) / LEVELS_4).bfloat16()
    zero = (least + 8 * scale.float()).bfloat16()
    q = ((groups - zero[..., None]) / _not_zero(scale)[..., None] + 8).round_().clamp_(0, LEVELS_4)
    return Grid(q.flatten(1).to(torch.uint8), scale, zero)


def _not_zero(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale == 0, 1, scale.float())


def format_of(model: nn.Module) -> str:
    """How the matrices of a model are stored: int8 or int4, else the name of its dtype."""
    packed = next((each.packing for each in model.modules() if isinstance(each, Packed)), None)
    return packed or str(next(model.parameters()).dtype).removeprefix("torch.")


def parameters_of(model: nn.Module) -> int:
    """How many numbers a model has been trained to, whatever they are stored as; tied ones count once."""
    packed = list(_all_packed(model))
    own = sum(each.in_features * each.out_features for each in packed if not each.tied)
    biases = sum(each.out_features for each in packed if each.bias is not None)
    return own + biases + sum(each.numel() for each in model.parameters())


def _all_packed(model: nn.Module) -> Iterator[Packed]:
    return (module for module in model.modules() if isinstance(module, Packed))


@dataclass(frozen=True)
class Inventory:
    """What became of a model's linear maps."""

    packed: Counter[str]
    """How many, by the origin of their numbers."""
    left: Counter[str]
    """How many stayed as they were, by the reason."""

    @classmethod
    def of(cls, model: nn.Module) -> Inventory:
        """Count them."""
        packed = Counter(each.origin for each in _all_packed(model))
        linear = [each for each in model.modules() if isinstance(each, nn.Linear | Conv1D)]
        return cls(packed, Counter(_reason(each) for each in linear))


def _reason(module: nn.Module) -> str:
    if type(module) not in PLAIN:
        return f"{type(module).__name__} is of the family's own"
    rows, columns = _matrix(module).shape
    return f"{rows} x {columns} is not a multiple of {ROWS} x {GROUP}"
