"""The tensors that a model consists of: its embedding table, and a digest of all its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import torch
from torch import nn

from sottovoce.models.huggingface import scans
from sottovoce.models.huggingface.devices import entry

SPACED = 64  # values of each tensor that a digest of weights looks at
LEFT_OUT = 1e-7  # of the weights' sum, at most: as much as float32 rounds
SUMMED = 1e-5  # of a cosine: far above what the order of float32 sums changes
BLOCK = 64  # rows whose angles with the whole table are held at a time


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

    def mean(self, weights: torch.Tensor, *, whole: bool = False) -> torch.Tensor:
        """Average the rows under weights (b, V) -> (b, E), in the table's dtype.

        On a CPU the heaviest rows of the table alone are read, unless `whole`: what is left out is at most
        LEFT_OUT of the weights' sum, which moves a mean by at most LEFT_OUT * max|row|.
        """
        weights = weights.to(self.rows.device)
        found = None if whole or self.rows.device.type != "cpu" else self._mean_of_heaviest(weights)
        return weights.to(self.rows.dtype) @ self.rows if found is None else found

    def _mean_of_heaviest(self, weights: torch.Tensor) -> torch.Tensor | None:
        """None where one product with the whole table is cheaper, or the weights are no numbers."""
        sizes = weights.abs()
        total = sizes.sum(-1, keepdim=True)
        # V weights of no more than this add up to no more than LEFT_OUT of the total: no tail needs to be summed.
        heavy = scans.larger(sizes, total * (LEFT_OUT / len(self)))
        if len(heavy) > len(self) or not total.isfinite().all():
            return None
        first = torch.searchsorted(heavy, torch.arange(len(weights)) * len(self))  # of each mean, as they lie in order
        chosen = weights.flatten()[heavy].to(self.rows.dtype)
        return nn.functional.embedding_bag(heavy % len(self), self.rows, first, mode="sum", per_sample_weights=chosen)

    def nearest(self, rows: torch.Tensor) -> torch.Tensor:
        """Ids (b,) of the nearest rows by cosine; first wins ties.

        The given rows' own lengths change no order, so only the table's are divided out.
        """
        return torch.cat([scans.argmax(block @ self._unit.T) for block in rows.to(self.rows.dtype).split(BLOCK)])

    def nearer(self, rows: torch.Tensor, ids: torch.Tensor, rivals: torch.Tensor) -> torch.Tensor:
        """Whether rows (b, E) are surely nearer to their ids (b,) than to all of their rivals (b, n): (b,) bool.

        Surely: by more than rounding may change of what `nearest` compares.
        """
        rounding = 2 * torch.finfo(self.rows.dtype).eps + SUMMED
        compared = self._unit[torch.cat([ids[:, None], rivals], 1)].float()  # (b, 1 + n, E)
        cosines = (compared @ nn.functional.normalize(rows.float(), dim=-1)[:, :, None])[:, :, 0]
        return cosines[:, 0] > cosines[:, 1:].amax(-1) + rounding


def weights_digest(model: nn.Module) -> str:
    """A digest of every tensor's name, shape, dtype and 64 spaced values: the same weights or not.

    Scales of quantised weights count too. Weights that accelerate has put aside are fetched in turn,
    which must not happen while the model computes.
    """
    digest = hashlib.sha256()
    for name, tensor in _tensors(model):
        flat = tensor.reshape(-1)
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype};".encode())
        digest.update(tensor_digest(flat[:: max(1, len(flat) // SPACED)]).encode())
    return digest.hexdigest()[:16]


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """What a checkpoint holds, module by module."""
    for path, module in model.named_modules():
        below = tuple(f"{child}." for child, _ in module.named_children())
        with _fetched(module):
            for name, tensor in module.state_dict().items():
                if isinstance(tensor, torch.Tensor) and not name.startswith(below):
                    yield from _plain(f"{path}.{name}", tensor)


def _plain(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor, or the plain ones that a packed one (torchao) is made of."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield name, tensor
        return
    for part in tensor.__tensor_flatten__()[0]:
        yield from _plain(f"{name}.{part}", getattr(tensor, part))


def _fetched(module: nn.Module) -> AbstractContextManager[None]:
    """The module's own weights at hand, where accelerate keeps them elsewhere."""
    if not hasattr(module, "_hf_hook"):
        return nullcontext()
    from accelerate.utils import align_module_device  # late: an extra, and whoever set the hook has it

    fetched: AbstractContextManager[None] = align_module_device(module)
    return fetched
