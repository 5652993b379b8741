"""Keys and values of many sequences: a slot each, filled from column 0, written in place.

Axes: S slots, C columns (positions of a sequence), as `huggingface.passes` lays them out. The last
column takes what must be written nowhere: the padding of prompts, and slots that only keep a shape.
"""

from __future__ import annotations

from collections import abc

import torch

from sottovoce.models.huggingface.passes import Kind, Pages


class KVCache:
    """The tensors; it knows slots and columns, not whose they are."""

    def __init__(self, kinds: abc.Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        self.slots = self.columns = 0
        self.tensors: Pages = ()

    @property
    def held(self) -> int:
        """Bytes that it takes now."""
        return self.nbytes(self.slots, self.columns)

    def nbytes(self, slots: int, columns: int) -> int:
        """Bytes that it would take in another size."""
        return slots * (columns + 1) * sum(kind.nbytes for kind in self.kinds)

    def resize(self, slots: int, columns: int, used: abc.Sequence[int]) -> None:
        """Another size; the first slots keep as many columns as `used` says of each."""
        old = self.tensors
        self.tensors = tuple(_zeros(kind, slots, columns) for kind in self.kinds)
        for new, kept in zip(self.tensors, old, strict=False):
            for slot, n in enumerate(used):
                new[:, slot, :, :n] = kept[:, slot, :, :n]
        self.slots, self.columns = slots, columns

    def move(self, source: int, target: int, n: int) -> None:
        """Copy the first n columns of a slot to another, and leave zeros: they are not known to be finite yet."""
        for tensor in self.tensors:
            tensor[:, target, :, :n] = tensor[:, source, :, :n]
        self.clear(source, n)

    def swap(self, one: int, other: int, n: int) -> None:
        """Exchange the first n columns of two slots."""
        for tensor in self.tensors:
            tensor[:, [one, other], :, :n] = tensor[:, [other, one], :, :n]

    def clear(self, slot: int, n: int | None = None) -> None:
        """Leave nothing that is not finite in the first n columns of a slot, or in all."""
        for tensor in self.tensors:
            tensor[:, slot, :, :n] = 0

    def cut(self, slot: int, start: int, end: int) -> Pages:
        """A copy of columns start .. end of a slot."""
        return tuple(tensor[:, slot, :, start:end].clone() for tensor in self.tensors)

    def paste(self, slot: int, column: int, pages: Pages, n: int) -> None:
        """Put the first n positions of `pages` into a slot, from `column` on."""
        for tensor, page in zip(self.tensors, pages, strict=True):
            tensor[:, slot, :, column : column + n] = page[:, :, :n]

    def window(self, start: int, end: int) -> Pages:
        """The slots start .. end, as `CacheView` takes them; what is written there is kept."""
        return tuple(tensor[:, start:end] for tensor in self.tensors)


def _zeros(kind: Kind, slots: int, columns: int) -> torch.Tensor:
    # Zeros, since a masked column still meets a weight of 0: what lies there must be finite.
    shape = (len(kind.members), slots, kind.heads, columns + 1, kind.width)
    return torch.zeros(shape, dtype=kind.dtype, device=kind.device)
