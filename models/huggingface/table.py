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
NEIGHBOURS = 16  # of a token that are kept: what is near to it is nearest to one of them
PROMISING = 0.75  # cosine to a guess; below, hardly any is
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
        self._neighbours: dict[int, tuple[torch.Tensor, float]] = {}
        """By id the closest rows, and the least of their cosines, as far as anybody asked."""

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
    def centre(self) -> torch.Tensor:
        """The mean of all rows, (E,), in the table's dtype."""
        return self.rows.float().mean(0).to(self.rows.dtype)

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

    def nearest(self, rows: torch.Tensor, guesses: torch.Tensor | None = None) -> torch.Tensor:
        """Ids (b,) of the nearest rows by cosine; first wins ties.

        The given rows' own lengths change no order, so only the table's are divided out. `guesses` (b,) are ids
        that the nearest are close to: where that is sure, the whole table need not be looked through.
        """
        rows = rows.to(self.rows.dtype)
        if guesses is None:
            return self._look_through(rows)
        ids = self._among_neighbours(rows, guesses)
        open = ids < 0
        return ids.masked_scatter(open, self._look_through(rows[open]))

    def nearer(self, rows: torch.Tensor, ids: torch.Tensor, rivals: torch.Tensor) -> torch.Tensor:
        """Whether rows (b, E) are surely nearer to their ids (b,) than to all of their rivals (b, n): (b,) bool."""
        cosines = self._cosines(rows, torch.cat([ids[:, None], rivals], 1))
        return cosines[:, 0] > cosines[:, 1:].amax(-1) + self._rounding

    def _look_through(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([scans.argmax(block @ self._unit.T) for block in rows.split(BLOCK)])

    def _among_neighbours(self, rows: torch.Tensor, guesses: torch.Tensor) -> torch.Tensor:
        """Ids (b,) of the nearest rows where they are for sure among the neighbours of the guesses, else -1.

        That is so where a row's angle to its guess is less than half of the one between the guess and all that is
        none of its neighbours: whatever is none is then further from the row than the guess is.
        """
        to_guess = self._cosines(rows, guesses[:, None])[:, 0]
        ids = torch.full_like(guesses, -1)
        (promising,) = (to_guess > PROMISING).nonzero(as_tuple=True)
        if not len(promising):
            return ids
        near, edge = self._neighbours_of(guesses[promising])
        best = self._cosines(rows[promising], near).topk(2, dim=-1)
        clear = best.values[:, 0] > best.values[:, 1] + self._rounding  # of equal ones the first would win
        within = to_guess[promising] > ((1 + edge) / 2).sqrt() + self._rounding  # the cosine of half an angle
        ids[promising] = near.gather(1, best.indices[:, :1])[:, 0].where(clear & within, -1)
        return ids

    def _neighbours_of(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of ids (b,) the rows closest to theirs (b, n), itself among them; no other's cosine is above (b,)."""
        asked = ids.tolist()
        new = torch.tensor(sorted({*asked} - {*self._neighbours}), dtype=torch.long, device=ids.device)
        for some in new.split(BLOCK):
            found = (self._unit[some] @ self._unit.T).topk(min(NEIGHBOURS, len(self)), dim=-1)
            each = zip(found.indices.unbind(), found.values[:, -1].tolist(), strict=True)
            self._neighbours.update(zip(some.tolist(), each, strict=True))
        near, edges = zip(*(self._neighbours[id] for id in asked), strict=True)
        return torch.stack(near), torch.tensor(edges, device=ids.device)

    def _cosines(self, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Of rows (b, E) and some ids (b, n) each: (b, n) float32."""
        unit = nn.functional.normalize(rows.float(), dim=-1)
        return (self._unit[ids].float() @ unit[:, :, None])[:, :, 0]

    @property
    def _rounding(self) -> float:
        """More than rounding changes of a difference between two cosines."""
        return 2 * torch.finfo(self.rows.dtype).eps + SUMMED


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
