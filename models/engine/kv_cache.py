"""The keys and values of many sequences: one slot each, filled from column 0, written in place.

Axes: S slots, C columns (positions of a sequence), in the layout of `huggingface.passes`. The last column takes
values to discard: the padding of prompts, and slots that only fill up a shape.
"""

from __future__ import annotations

from collections import abc

import torch

from sottovoce.models.engine.request import Cached, KeysValues
from sottovoce.models.huggingface.passes import Kind, Pages
from sottovoce.models.huggingface.rotary import Rotary


class KVCache:
    """The tensors of the cache, by slot and column; the scheduler knows which sequence has which slot."""

    def __init__(self, kinds: abc.Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        self.slots = self.columns = 0
        self.tensors: Pages = ()

    @property
    def allocated(self) -> int:
        """Bytes allocated now."""
        return self.nbytes(self.slots, self.columns)

    def nbytes(self, slots: int, columns: int) -> int:
        """Return the bytes of a cache of another size."""
        return slots * (columns + 1) * sum(kind.nbytes for kind in self.kinds)

    def resize(self, slots: int, columns: int, used: abc.Sequence[int]) -> None:
        """Change the size; each of the first slots keeps as many columns as `used` says."""
        old = self.tensors
        # Zeros, because a masked column still gets a weight of 0: its values must be finite.
        shapes = [(len(kind.members), slots, kind.heads, columns + 1, kind.width) for kind in self.kinds]
        new_of = zip(shapes, self.kinds, strict=True)
        self.tensors = tuple(torch.zeros(shape, dtype=kind.dtype, device=kind.device) for shape, kind in new_of)
        for new, kept in zip(self.tensors, old, strict=False):
            for slot, n in enumerate(used):
                new[:, slot, :, :n] = kept[:, slot, :, :n]
        self.slots, self.columns = slots, columns

    def move(self, source: int, target: int, n: int) -> None:
        """Copy the first n columns of a slot to another, and zero the source: its values may not be finite."""
        for tensor in self.tensors:
            tensor[:, target, :, :n] = tensor[:, source, :, :n]
        self.clear(source, n)

    def swap(self, first: int, second: int, n: int) -> None:
        """Exchange the first n columns of two slots."""
        for tensor in self.tensors:
            tensor[:, [first, second], :, :n] = tensor[:, [second, first], :, :n]

    def clear(self, slot: int, n: int | None = None) -> None:
        """Zero the first n columns of a slot, or all columns, so that all values are finite."""
        for tensor in self.tensors:
            tensor[:, slot, :, :n] = 0

    def cut(self, slot: int, start: int, end: int) -> Pages:
        """Return a copy of columns start .. end of a slot."""
        return tuple(tensor[:, slot, :, start:end].clone() for tensor in self.tensors)

    def paste(self, slot: int, column: int, pages: Pages, n: int) -> None:
        """Write the first n positions of `pages` to a slot, from `column` on."""
        for tensor, page in zip(self.tensors, pages, strict=True):
            tensor[:, slot, :, column : column + n] = page[:, :, :n]

    def insert(self, slot: int, column: int, piece: Cached, start: int, rotary: Rotary) -> None:
        """Write a cached piece, from its position `start` on, to a slot from `column` on.

        Layers of which the piece has only the first position get zeros at the others, which they must not see.
        """
        (tensor,), (kind,) = self.tensors, self.kinds
        rest = tuple(layer for layer in range(len(kind.members) // 2) if layer not in piece.layers)
        tensor[:, slot, :, column : column + len(piece) - start] = 0
        for layers, keys, values in (
            (piece.layers, piece.keys[:, :, start:], piece.values[:, :, start:]),
            (rest, piece.first_keys[:, :, start:], piece.first_values[:, :, start:]),
        ):
            if not (n := keys.shape[2]) or not layers:
                continue
            by = torch.arange(column, column + n) - piece.at[start : start + n]
            turned = rotary.turn(keys.to(tensor.device), layers, by) if piece.turned else keys
            for j, new in enumerate((turned, values)):
                members = [kind.members.index((layer, j)) for layer in layers]
                tensor[members, slot, :, column : column + n] = new.to(tensor)

    def keys_values(self, slot: int, columns: abc.Sequence[int]) -> KeysValues:
        """Return a copy of some columns of a slot, on the CPU; its model has keys and values of one shape."""
        (tensor,), (kind,) = self.tensors, self.kinds
        at = torch.tensor(columns, dtype=torch.long)
        kept = tensor[:, slot, :, at.to(tensor.device)]
        keys, values = (kept[[i for i, (_, j) in enumerate(kind.members) if j == which]].cpu() for which in (0, 1))
        return KeysValues(keys, values, at)

    def window(self, start: int, end: int) -> Pages:
        """Return a view of slots start .. end for `CacheView`; writes to it change the cache."""
        return tuple(tensor[:, start:end] for tensor in self.tensors)
