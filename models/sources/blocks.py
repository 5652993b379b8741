"""The blocks of a GGUF file, stored unchanged next to the weights that were dequantized from them.

A matrix is found by its rows and not by its name, because transformers renames matrices and, for some families,
reorders the rows of queries and keys: a block belongs to one row and moves with it. The stored blocks are bitwise the
ones that the weights were made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file

from sottovoce.core.any_types import Untyped
from sottovoce.models.huggingface.packed_weights import Grid

FILE = "blocks.safetensors"
D, M = slice(0, 2), slice(2, 4)  # bytes of a block's scale and minimum, float16
Array = NDArray[Any]  # Any: float32 values or bytes


def keep(tensors: Iterable[Any], matrices: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write the blocks of those matrices (n, k) that were made from `tensors` (Any: as GGUFReader has them).

    The file's metadata has the type of each matrix, also of those without a kernel, whose blocks are not stored.
    """
    from gguf import dequantize  # late: only the conversion of a file needs it

    widened = {name: matrix.numpy() for name, matrix in matrices.items() if matrix.dtype == torch.float32}
    names = {_content(_rows(matrix)): name for name, matrix in widened.items()}
    kinds, blocks = dict[str, str](), dict[str, torch.Tensor]()
    for tensor in tensors:
        if len(tensor.shape) != 2 or tensor.tensor_type.name in ("F32", "F16", "BF16"):
            continue
        values = dequantize(tensor.data, tensor.tensor_type)
        rows = _rows(values)
        if name := names.get(_content(rows)):
            kinds[name] = tensor.tensor_type.name
            if kinds[name] in KINDS:
                order = _order(rows, widened[name])
                assert numpy.array_equal(values[order], widened[name]), "rows of one digest are one row"
                blocks[name] = torch.from_numpy(tensor.data[order])
    if kinds:  # otherwise safetensors writes a file that it cannot read
        save_file(blocks, folder / FILE, metadata=kinds)


def _rows(matrix: Array) -> list[int]:
    return [hash(row.tobytes()) for row in matrix]


def _content(rows: list[int]) -> int:
    """Return a hash that does not depend on the order of the rows."""
    return hash((len(rows), *sorted(rows)))


def _order(rows: list[int], matrix: Array) -> list[int]:
    at = {row: i for i, row in enumerate(rows)}
    return [at[row] for row in _rows(matrix)]


class Blocks:
    """The blocks that `keep` wrote to a folder; empty if it wrote none."""

    def __init__(self, folder: Path) -> None:
        """Read the names; blocks are read one matrix at a time."""
        at = folder / FILE
        self._file: Untyped = safe_open(at, framework="pt") if at.is_file() else None
        found = self._file.metadata() if self._file else None  # type: ignore[no-untyped-call]
        self._kinds: dict[str, str] = found or {}

    def kind(self, name: str) -> str | None:
        """Return the type of a matrix in the file; None if it had no blocks."""
        return self._kinds.get(name)

    def grid(self, name: str) -> Grid | None:
        """Return the grid of a matrix if its blocks are stored: (n, k), or (n, 2k) for two planes."""
        if (kind := self._kinds.get(name, "")) not in KINDS:
            return None
        blocks: torch.Tensor = self._file.get_tensor(name)
        return KINDS[kind](blocks.unflatten(1, (-1, SIZES[kind])))


def _q4_0(blocks: torch.Tensor) -> Grid:
    """Return the grid of w = d * (q - 8)."""
    scale = _half(blocks, D)
    return Grid(_nibbles(blocks[..., 2:]), scale, torch.zeros_like(scale))


def _q4_1(blocks: torch.Tensor) -> Grid:
    """Return the grid of w = d * q + m."""
    scale = _half(blocks, D)
    return Grid(_nibbles(blocks[..., 4:]), scale, _half(blocks, M) + 8 * scale)


def _q8_0(blocks: torch.Tensor) -> Grid:
    """Return the grid of w = d * q."""
    return Grid.of_bytes(blocks[..., 2:].flatten(1).view(torch.int8), _half(blocks, D))


def _half(blocks: torch.Tensor, where: slice) -> torch.Tensor:
    return blocks[..., where].contiguous().view(torch.float16).squeeze(-1).float()  # (n, blocks of a row)


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    """Return the values (n, k): a block's low nibbles are its first half, its high nibbles the second."""
    return torch.cat([packed & 15, packed >> 4], dim=-1).flatten(1)


KINDS: Mapping[str, Callable[[torch.Tensor], Grid]] = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0}
"""Types that the int4 kernel can use directly, with the function for their blocks (n, blocks of a row, bytes)."""
SIZES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}
"""Bytes of a block of 32 values."""
