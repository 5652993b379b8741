"""A model's embedding table over its tokenizer's vocabulary: lookup, averaging, nearest neighbour."""

from __future__ import annotations

import hashlib
from functools import cached_property

import torch
from torch import nn

from sottovoce.models.huggingface.devices import entry


def tensor_digest(*tensors: torch.Tensor) -> str:
    """The sha256, in hex, over shapes, dtypes and bytes of the tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous()
        digest.update(f"{tuple(flat.shape)} {flat.dtype};".encode())
        digest.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Table:
    """The rows (V, E) that token ids 0 .. V-1 enter a model as."""

    def __init__(self, rows: torch.Tensor) -> None:
        """Keep `rows` as they are; `key` names them by a digest of their values."""
        self.rows = rows

    @classmethod
    def of(cls, embedding: nn.Module, vocabulary: int) -> Table:
        """Read the table through its module, since some families scale inside it (Gemma).

        `vocabulary` leaves out the rows that pad a table beyond its tokenizer.
        """
        with torch.no_grad():
            return cls(embedding(torch.arange(vocabulary, device=entry(embedding))).detach())

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """E, the embedding width."""
        return int(self.rows.shape[1])

    @cached_property
    def key(self) -> str:
        """A short digest of shape and 4096 evenly spaced values: enough to tell models apart."""
        flat = self.rows.reshape(-1)
        step = max(1, len(flat) // 4096)
        return tensor_digest(torch.tensor(self.rows.shape), flat[::step].float())[:16]

    @cached_property
    def _unit(self) -> torch.Tensor:
        return nn.functional.normalize(self.rows.float(), dim=-1).to(self.rows.dtype)

    def mean(self, weights: torch.Tensor) -> torch.Tensor:
        """Average the rows under weights (b, V) -> (b, E), in the table's dtype."""
        return weights.to(self.rows.device, self.rows.dtype) @ self.rows

    def nearest(self, rows: torch.Tensor) -> torch.Tensor:
        """Ids (b,) of the nearest rows by cosine; first wins ties.

        The given rows' own lengths change no order, so only the table's are divided out.
        """
        return (rows.to(self.rows.dtype) @ self._unit.T).argmax(-1)
