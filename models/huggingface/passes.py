"""The data of a forward pass: its inputs, the cache that a Hugging Face model sees, and its results.

Tensors of equal shape are stored together: the keys and values of a usual model are one tensor
(m, S, heads, C + 1, width), for S sequences of C columns; see `engine.cache`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

Pages = tuple[torch.Tensor, ...]
"""Keys and values of some positions of one sequence, (m, heads, n, width) for each kind of tensor."""
FINAL = -1
"""Among layer numbers: the last layer's state after the final norm."""
_Place = tuple[torch.Tensor, torch.Tensor]
_Part = tuple[torch.Tensor, torch.Tensor, _Place]
"""Keys or values of a layer, to write as (b, columns, heads, width) and to read as (b, heads, c, width)."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Queries (b, n) over a window of a KV cache."""

    inputs: torch.Tensor
    """Ids (b, n), or embeddings (b, n, E)."""
    positions: torch.Tensor
    columns: torch.Tensor
    """The columns to write keys and values to: the positions, except for padding."""
    span: torch.Tensor
    """The columns to attend to: 0 .. c - 1."""
    window: Pages
    plain: bool = False
    """True if no mask is needed: one query each that sees all columns, or whole prompts from column 0."""
    hidden: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """Columns (b, c) that a layer must not see, by layer."""
    sight: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """The last columns (b, n) that queries see in layers of `hidden`, if it is not their own position, by layer."""
    selected: torch.Tensor | None = None
    """The queries that are wanted, (r,) of all b * n in order; None for the last of each sequence."""


@dataclass(frozen=True, eq=False)
class Pass:
    """The results of a forward pass."""

    logits: torch.Tensor
    """Logits at the wanted positions, over the tokenizer's vocabulary: (r, V) float32."""
    states: Mapping[int, torch.Tensor]
    """The states (r, H) of these positions, by layer."""


@dataclass(frozen=True)
class Kind:
    """Tensors of one shape: their layers, keys (0) or values (1), and the shape and dtype of one position."""

    members: tuple[tuple[int, int], ...]
    heads: int
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def nbytes(self) -> int:
        """Bytes of one position of a sequence."""
        return len(self.members) * self.heads * self.width * self.dtype.itemsize


def kinds_of(cache: DynamicCache) -> tuple[Kind, ...]:
    """Return the kinds of tensors that a model stores, from a cache that it filled."""
    found: dict[tuple[int, int, torch.dtype, torch.device], list[tuple[int, int]]] = {}
    for i, layer in enumerate(cache.layers):
        for j, kept in enumerate((getattr(layer, "keys", None), getattr(layer, "values", None))):
            if kept is not None:  # layers that share another's cache store none
                found.setdefault((kept.shape[1], kept.shape[3], kept.dtype, kept.device), []).append((i, j))
    return tuple(Kind(tuple(members), *what) for what, members in found.items())


class CacheView(Cache):
    """The cache of one pass over a window of a KV cache, as a Hugging Face model reads and writes it.

    Query j of sequence i is written at `columns[i, j]`; keys and values are returned up to column `end`.
    """

    def __init__(self, kinds: Sequence[Kind], window: Pages, columns: torch.Tensor, end: int) -> None:
        """`window` may have more sequences than `columns`."""
        layers = 1 + max((layer for kind in kinds for layer, _ in kind.members), default=-1)
        parts: list[list[_Part | None]] = [[None, None] for _ in range(layers)]
        rows, n = columns.shape
        for kind, tensor in zip(kinds, window, strict=True):
            place = torch.arange(rows, device=kind.device)[:, None], columns.to(kind.device)
            store = tensor[:, :rows]  # views for all layers at once, because a call takes as long as a small operator
            parted = zip(kind.members, store.transpose(2, 3).unbind(), store[..., :end, :].unbind(), strict=True)
            for (layer, j), written, read in parted:
                parts[layer][j] = written, read, place
        super().__init__(layers=[_Layer(each, end, n) for each in parts])


class _Layer(CacheLayerMixin):
    is_sliding = False  # every layer keeps all columns; the mask implements the window

    def __init__(self, parts: Sequence[_Part | None], end: int, n: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in transformers
        self._parts, self._end, self._n = parts, end, n
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing, because the columns exist already."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (self._put(part, new) for part, new in zip(self._parts, (key_states, value_states), strict=True))
        return keys, values

    def _put(self, part: _Part | None, new: torch.Tensor) -> torch.Tensor:
        assert part is not None, "a layer writes what it wrote on the first token"
        written, read, place = part
        written.index_put_(place, new.transpose(1, 2))
        return read

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._end, 0

    def get_seq_length(self) -> int:
        return self._end - self._n

    def get_max_length(self) -> int:
        return -1
