"""Keys and values of many rows: a slot each, filled from column 0, written in place.

Axes: S slots, C columns (positions of a row). Tensors of equal shape lie together: all keys and
values of a usual model are one tensor (m, S, heads, C + 1, width). The last column takes what must
be written nowhere: the padding of prompts, and the slots that only keep a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

Pages = tuple[torch.Tensor, ...]
"""Keys and values of some positions of one row, (m, heads, n, width) for each kind of tensor."""


@dataclass(frozen=True)
class Kind:
    """Tensors of one shape: which layers' keys (0) or values (1), and what one position of each is."""

    members: tuple[tuple[int, int], ...]
    heads: int
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def nbytes(self) -> int:
        """Bytes of one position of a row."""
        return len(self.members) * self.heads * self.width * self.dtype.itemsize


def kinds_of(cache: DynamicCache) -> tuple[Kind, ...]:
    """The kinds of tensors that a model keeps, seen in a cache that it filled."""
    found: dict[tuple[int, int, torch.dtype, torch.device], list[tuple[int, int]]] = {}
    for i, layer in enumerate(cache.layers):
        for j, kept in enumerate((getattr(layer, "keys", None), getattr(layer, "values", None))):
            if kept is not None:  # layers that share another's cache keep none
                found.setdefault((kept.shape[1], kept.shape[3], kept.dtype, kept.device), []).append((i, j))
    return tuple(Kind(tuple(members), *what) for what, members in found.items())


class Slots:
    """The store; it knows slots and columns, not whose they are."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Start with no slot."""
        self.kinds = tuple(kinds)
        self.rows = self.columns = 0
        self.tensors: Pages = ()

    def nbytes(self, rows: int, columns: int) -> int:
        """What a store of this size takes."""
        return rows * (columns + 1) * sum(kind.nbytes for kind in self.kinds)

    def resize(self, rows: int, columns: int, used: Sequence[int]) -> None:
        """Another size; the first slots keep as many columns as `used` says of each."""
        old = self.tensors
        self.tensors = tuple(self._zeros(kind, rows, columns) for kind in self.kinds)
        for new, kept in zip(self.tensors, old, strict=False):
            for row, n in enumerate(used):
                new[:, row, :, :n] = kept[:, row, :, :n]
        self.rows, self.columns = rows, columns

    def _zeros(self, kind: Kind, rows: int, columns: int) -> torch.Tensor:
        # Zeros, since a masked column still meets a weight of 0: what lies there must be finite.
        return torch.zeros(
            len(kind.members), rows, kind.heads, columns + 1, kind.width, dtype=kind.dtype, device=kind.device
        )

    def copy(self, source: int, target: int, n: int) -> None:
        """Copy the first n columns of a slot to another."""
        for tensor in self.tensors:
            tensor[:, target, :, :n] = tensor[:, source, :, :n]

    def swap(self, one: int, other: int, n: int) -> None:
        """Exchange the first n columns of two slots."""
        for tensor in self.tensors:
            tensor[:, [one, other], :, :n] = tensor[:, [other, one], :, :n]

    def clear(self, row: int, n: int | None = None) -> None:
        """Leave nothing that is not finite in the first n columns of a slot, or in all."""
        for tensor in self.tensors:
            tensor[:, row, :, :n] = 0

    def cut(self, row: int, start: int, end: int) -> Pages:
        """A copy of columns start .. end of a slot."""
        return tuple(tensor[:, row, :, start:end].clone() for tensor in self.tensors)

    def paste(self, row: int, column: int, start: int, pages: Pages, n: int) -> None:
        """Put n positions of `pages`, from `start` on, into a slot from `column` on."""
        for tensor, page in zip(self.tensors, pages, strict=True):
            tensor[:, row, :, column : column + n] = page[:, :, start : start + n]

    def window(self, start: int, end: int) -> Pages:
        """The slots start .. end, as `SlotCache` takes them; what is written there is kept."""
        return tuple(tensor[:, start:end] for tensor in self.tensors)


class SlotCache(Cache):
    """What a Hugging Face model reads and writes in one pass over a window of slots.

    Query j of row i is written at `columns[i, j]`; keys and values come back up to column `end`.
    """

    def __init__(self, kinds: Sequence[Kind], window: Pages, columns: torch.Tensor, end: Any) -> None:
        """`end` is Any, as tracing makes a tensor of it; `window` may have more rows than `columns`."""
        layers = 1 + max((layer for kind in kinds for layer, _ in kind.members), default=-1)
        parts: list[list[Any]] = [[None, None] for _ in range(layers)]
        rows = columns.shape[0]
        for kind, tensor in zip(kinds, window, strict=True):
            at = _places(columns, kind.heads, kind.device)
            for member, (layer, j) in enumerate(kind.members):
                parts[layer][j] = (tensor[member, :rows], at)
        n = columns.shape[1]
        super().__init__(layers=[_Layer(keys, values, end, n) for keys, values in parts])


def _places(columns: torch.Tensor, heads: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    columns = columns.to(device)
    rows = torch.arange(columns.shape[0], device=device)
    return rows[:, None, None], torch.arange(heads, device=device)[None, :, None], columns[:, None]


class _Layer(CacheLayerMixin):
    is_sliding = False  # every layer keeps all columns; the mask does the window

    def __init__(self, keys: Any, values: Any, end: Any, n: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers' own
        self._parts, self._end, self._n = (keys, values), end, n
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the slots are there."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (self._put(part, new) for part, new in zip(self._parts, (key_states, value_states), strict=True))
        return keys, values

    def _put(self, part: tuple[torch.Tensor, tuple[torch.Tensor, ...]], new: torch.Tensor) -> torch.Tensor:
        store, at = part
        store.index_put_(at, new)
        return store[:, :, : self._end]

    def get_mask_sizes(self, query_length: int) -> tuple[Any, int]:
        return self._end, 0

    def get_seq_length(self) -> Any:
        return self._end - self._n

    def get_max_length(self) -> int:
        return -1
