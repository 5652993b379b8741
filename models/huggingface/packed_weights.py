"""Storage formats of linear maps; matrices of 8 or 4 bits per value, on torch's packed int4 kernel for CPUs.

Values are in groups of 32, each with a scale and a zero; 8-bit values are two planes of 4 bits, which the kernel adds
up (torch's int8 kernel has one scale for a whole row: SmolLM2 then answers 7.5 % fewer questions). Few rows go through
the kernel, in and out in bfloat16 (with float32 rows it is 30 times slower); for many rows the same numbers are widened
to float32 for that one call. int4 takes 0.625 and int8 1.25 bytes per value, and no other copy is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from sottovoce.core.errors import ModelError, nearest
from sottovoce.models.huggingface.devices import Place

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""The dtype that a model computes in."""
Weights = Literal["auto", "float32", "bfloat16", "int8", "int4"]
"""The storage format of linear maps: the dtype, or 8 or 4 bits for each value."""
Packing = Literal["int8", "int4"]
PACKINGS: tuple[Packing, ...] = get_args(Packing)
GROUP = 32
"""Adjacent values of a row with one scale and zero, as in a GGUF file; the kernel supports no fewer."""
ROWS = 64
"""The number of rows of a packed matrix is a multiple of this, which the kernel processes at a time."""
FEW = 64
"""Rows up to which the kernel is faster for one plane (measured on AVX-512, widening included); half for two."""
AT_ONCE = 64 * ROWS  # rows packed in one call, which takes four bytes per value
LEVELS_8, LEVELS_4 = 127, 15  # largest absolute level of int8; number of steps of int4
PLAIN = (nn.Linear, Conv1D)  # a family's own class may compute differently


def settled(dtype: Dtype, weights: Weights, place: Place, *, exact: bool = False) -> tuple[Dtype, Packing | None]:
    """Return the dtype to load in, and how to pack matrices afterwards, if at all.

    Raises:
        ModelError: an unknown or contradictory name, or a device or `exact` that the format rules out.
    """
    if dtype not in get_args(Dtype):
        raise ModelError(nearest("dtype", dtype, get_args(Dtype)))
    if weights not in get_args(Weights):
        raise ModelError(nearest("weights", weights, get_args(Weights)))
    packing = next((each for each in PACKINGS if each == weights), None)
    if packing is None:
        if "auto" not in (dtype, weights) and dtype != weights:
            raise ModelError(f"dtype is {dtype!r} and weights are {weights!r}; give one of them, or the same twice")
        return (dtype if weights == "auto" else weights), None  # type: ignore[return-value]  # it is not packed
    if place != "cpu":
        where = place if isinstance(place, str) else "a map"
        raise ModelError(
            f"weights in {packing} require a CPU, but the device is {where!r}; use device cpu, or bfloat16 weights"
        )
    if dtype not in ("auto", "float32"):
        raise ModelError(
            f"a model with weights in {packing} computes in float32, but dtype is {dtype!r}; "
            f"leave dtype at auto, or give weights {dtype if dtype == 'bfloat16' else 'auto'}"
        )
    if exact:
        raise ModelError(never_exact(packing))
    return "float32", packing


def never_exact(form: str) -> str:
    """Return the error message for `exact` with a format other than float32."""
    return f"exact requires weights in float32, but they are in {form}; give weights float32, or omit exact"


@dataclass(frozen=True, eq=False)
class Grid:
    """A matrix (n, k) of w = (q - 8) * scale + zero; GROUP adjacent values of a row share scale and zero."""

    q: torch.Tensor
    """(n, k) uint8, 0 to 15."""
    scale: torch.Tensor
    """(n, k / GROUP)"""
    zero: torch.Tensor
    """(n, k / GROUP)"""


class Packed(nn.Module):
    """A packed linear map; input and output keep their dtype.

    w = (q - 8) * scale + zero in groups; with two planes, each input is multiplied by the sum of both.
    """

    bias: torch.Tensor | None
    packed: torch.Tensor
    scales: torch.Tensor

    def __init__(self, grid: Grid, packing: Packing, bias: torch.Tensor | None = None, *, planes: int = 1) -> None:
        """Pack a grid (n, planes * k); its scales and zeros are rounded to bfloat16.

        `packing` names the format of the whole model.
        """
        super().__init__()
        rows, columns = grid.q.shape
        self.in_features, self.out_features, self.planes = columns // planes, rows, planes
        self.packing, self.few = packing, FEW // planes
        self.tied = False
        """True if its matrix is also the embedding table."""
        self.register_buffer("bias", bias)
        self.register_buffer("packed", _packed(grid.q), persistent=False)  # in an order that depends on this machine
        scales = torch.stack([grid.scale, grid.zero], dim=-1).transpose(0, 1)  # (k / GROUP, n, 2) for the kernel
        self.register_buffer("scales", scales.bfloat16().contiguous())

    def get_extra_state(self) -> torch.Tensor:
        """Return the values 0 to 15, (n, k) in plain order, two per byte: digests are the same on any machine."""
        q = unpacked(self.packed).T
        return q[:, 0::2] | q[:, 1::2] << 4

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map inputs (..., k) to outputs (..., n)."""
        made: torch.Tensor
        rows = inputs.reshape(-1, self.in_features)
        if rows.shape[0] <= self.few:
            packed, scales = self._buffers["packed"], self._buffers["scales"]
            halved = rows.bfloat16() if self.planes == 1 else rows.bfloat16().repeat(1, self.planes)
            made = torch.ops.aten._weight_int4pack_mm_for_cpu.default(halved, packed, GROUP, scales).to(rows.dtype)
        else:
            made = rows @ self.widened().to(rows.dtype)
        if (bias := self._buffers["bias"]) is not None:  # `self.bias` takes a microsecond in Python
            made = made + bias
        return made.view(*inputs.shape[:-1], self.out_features)

    def widened(self) -> torch.Tensor:
        """Return the matrix (k, n) in float32."""
        levels = unpacked(self.packed).view(torch.int8).sub_(8).unflatten(0, (-1, GROUP)).float()  # (groups, GROUP, n)
        scale, zero = self.scales.permute(2, 0, 1).float().contiguous().unsqueeze(2)  # (groups, 1, n); else 4x slower
        whole = torch.addcmul(zero, levels, scale, out=levels).flatten(0, 1)
        return whole if self.planes == 1 else whole.unflatten(0, (self.planes, -1)).sum(0)


@dataclass(frozen=True)
class _Order:
    """A kernel's order of values: blocks of `block` rows; each byte has the values of two rows in one column."""

    block: int
    halves: bool
    """True if the rows of a byte are half a block apart; False if they are adjacent."""


ORDERS = (_Order(64, True), _Order(32, True), _Order(32, False))  # torch 2.13: AVX-512; AVX2; any other


def _packed(q: torch.Tensor) -> torch.Tensor:
    """Return values (n, k) uint8 as (n, k / 2) bytes in the kernel's own order."""
    parts = (part.int().contiguous() for part in q.split(AT_ONCE))
    return torch.cat([torch.ops.aten._convert_weight_to_int4pack_for_cpu(part, 1) for part in parts])


def unpacked(packed: torch.Tensor) -> torch.Tensor:
    """Return packed values in plain order, (k, n) uint8."""
    return _in_order(packed, _order())


def _in_order(packed: torch.Tensor, order: _Order) -> torch.Tensor:
    rows, columns = packed.shape[0], 2 * packed.shape[1]
    blocks = packed.view(-1, columns, order.block // 2).transpose(0, 1)  # (k, blocks, bytes)
    return torch.stack([blocks & 15, blocks >> 4], dim=2 if order.halves else 3).reshape(columns, rows)


@cache
def _order() -> _Order:
    """Return the order of this machine's kernel, found by packing known values."""
    known = torch.randint(16, (2 * ROWS, GROUP), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    packed = _packed(known)
    for order in ORDERS:
        if torch.equal(_in_order(packed, order).T, known):
            return order
    raise ModelError(
        f"torch {torch.__version__} packs int4 weights in an order that is not known here; use int8 or float32"
    )


def pack(model: PreTrainedModel, packing: Packing) -> None:
    """Replace a model's linear maps by packed ones, except those that no kernel supports; its head keeps 8 bits.

    The matrices are packed one by one, so that no second copy of the weights is needed. The embedding table is not
    packed: a head that was tied to it gets its own matrix.
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
