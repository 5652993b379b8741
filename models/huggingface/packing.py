"""Packing of a loaded model's linear maps in place."""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from sottovoce.models.huggingface.packed_weights import GROUP, ROWS, Grid, Packed, Packing

LEVELS_8, LEVELS_4 = 127, 15  # largest absolute level of int8; number of steps of int4
PLAIN = (nn.Linear, Conv1D)  # a family's own class may compute differently


def pack(model: PreTrainedModel, packing: Packing) -> None:
    """Replace a model's linear maps by packed ones, except those that no kernel supports; its head keeps 8 bits.

    The matrices are packed one by one, so that no second copy of the weights is needed. The embedding table is not
    packed: a head that was tied to it gets a matrix of its own.
    """
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    for path, module in [*model.named_modules()]:
        if fits(module):
            matrix, bias = _matrix(module), getattr(module, "bias", None)
            rounded = rounded_to_int8 if packing == "int8" or module is head else rounded_to_int4
            grid = rounded(matrix.float())
            planes = grid.q.shape[1] // matrix.shape[1]
            made = Packed(grid, packing, None if bias is None else bias.detach(), planes=planes)
            made.tied = module.weight is table
            model.set_submodule(path, made)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()  # otherwise the rest keeps its whole file in memory


def matrices(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the matrices (n, k) of a model's linear maps, by their names in its state dict."""
    return {f"{path}.weight": _matrix(each) for path, each in model.named_modules() if type(each) in PLAIN}


def fits(module: nn.Module) -> bool:
    """Return True if a kernel supports the matrix of a module."""
    if type(module) not in PLAIN:
        return False
    rows, columns = _matrix(module).shape
    return rows % ROWS == 0 and columns % GROUP == 0


def _matrix(module: nn.Module) -> torch.Tensor:
    """Return the matrix (n, k) that maps k inputs to n outputs; GPT-2 stores its transpose."""
    weight: torch.Tensor = module.weight.detach()  # type: ignore[operator]  # a parameter
    return weight.T if isinstance(module, Conv1D) else weight


def rounded_to_int8(matrix: torch.Tensor) -> Grid:
    """Return w as two planes of q * scale with q from -127 to 127, after rounding the scale to bfloat16.

    A matrix that was dequantized from Q8_0 gets the values of its blocks.
    """
    groups = matrix.unflatten(1, (-1, GROUP))  # (n, k / GROUP, GROUP)
    scale = (groups.abs().amax(2) / LEVELS_8).bfloat16()
    q = (groups / _not_zero(scale)[..., None]).round_().clamp_(-LEVELS_8, LEVELS_8).flatten(1).to(torch.int8)
    planes = ((q >> 4) + 8).view(torch.uint8), (q & 15).view(torch.uint8)  # q = 16 * high + low, exactly
    scales, zeros = (16 * scale, scale), (torch.zeros_like(scale), 8 * scale)
    return Grid(*(torch.cat(pair, dim=1) for pair in (planes, scales, zeros)))


def rounded_to_int4(matrix: torch.Tensor) -> Grid:
    """Return the grid from the minimum to the maximum of each group, after rounding scale and zero to bfloat16.

    A matrix that was dequantized from Q4_1 gets the values of its blocks.
    """
    groups = matrix.unflatten(1, (-1, GROUP))  # (n, k / GROUP, GROUP)
    least, most = groups.aminmax(dim=2)
    step = (most - least) / LEVELS_4
    scale, zero = step.bfloat16(), (least + 8 * step).bfloat16()  # the middle, so that the step's rounding adds least
    q = ((groups - zero[..., None]) / _not_zero(scale)[..., None] + 8).round_().clamp_(0, LEVELS_4)
    return Grid(q.flatten(1).to(torch.uint8), scale, zero)


def _not_zero(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale == 0, 1, scale.float())


def format_of(model: nn.Module) -> str:
    """Return the storage format of a model's matrices: int8 or int4, otherwise the name of its dtype."""
    packed = next((each.packing for each in model.modules() if isinstance(each, Packed)), None)
    return packed or str(next(model.parameters()).dtype).removeprefix("torch.")


def parameters_of(model: nn.Module) -> int:
    """Return the number of trained parameters in any storage format; tied ones count once."""
    packed = [module for module in model.modules() if isinstance(module, Packed)]
    own = sum(each.in_features * each.out_features for each in packed if not each.tied)
    biases = sum(each.out_features for each in packed if each.bias is not None)
    return own + biases + sum(each.numel() for each in model.parameters())
