"""The embedding table of a model, searches over its vocabulary, and a digest of all weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import nn

PIECE = 1 << 22  # values that a thread digests at a time
LEFT_OUT = 1e-7  # maximum share of the weights' sum that is left out: as much as float32 rounds
SUMMED = 1e-5  # of a cosine: far above the effect of the order of float32 sums
NEIGHBOURS = 16  # cached for each token: a vector near the token is nearest to one of them
PROMISING = 0.75  # cosine to a guess; below it, a guess hardly ever helps
SMALL = 1 << 20  # numbers of a table that stays in a core's cache: a product with all of it is not worth avoiding
SEARCHES = 32  # largest values of which each is found by a search of its own, faster than a partial sort
UNSPLIT = 10_000  # numbers of a row above which numpy's sums (2.4, OpenBLAS) may take other cores
BLOCK, LARGE_BLOCK = 64, 512  # rows whose cosines with the whole table are in memory at a time; the latter on a GPU


def tensor_digest(*tensors: torch.Tensor) -> str:
    """Return the sha256, in hex, of the shapes, dtypes and bytes of the tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous()
        digest.update(f"{tuple(flat.shape)} {flat.dtype};".encode())
        if flat.numel() == 1:  # one number may have any stride, and `view` requires 1
            flat = flat.reshape(()).repeat(1)
        digest.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@dataclass(eq=False, repr=False)
class Table:
    """The embedding rows (V, E) of token ids 0 .. V-1."""

    rows: torch.Tensor
    _neighbours: dict[int, tuple[torch.Tensor, float]] = field(default_factory=dict)
    """Closest rows of an id, and the lowest of their cosines, for the ids requested so far."""

    @classmethod
    def of(cls, embedding: nn.Module, vocabulary: int) -> Table:
        """Read the table through its module, because some families scale inside it (Gemma).

        `vocabulary` excludes rows that pad a table beyond its tokenizer.
        """
        device = next(embedding.parameters()).device
        if device.type == "meta":  # offloaded weights, which accelerate moves itself
            device = torch.device("cpu")
        with torch.no_grad():
            return cls(embedding(torch.arange(vocabulary, device=device)).detach())

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """E, the embedding width."""
        return int(self.rows.shape[1])

    @cached_property
    def key(self) -> str:
        """A short digest of shape and values, whatever their dtype."""
        return digest_of_all([("table", self.rows)], torch.float32)

    @cached_property
    def mean_norm(self) -> float:
        """The mean length of the rows."""
        return float(self.rows.float().norm(dim=-1).mean())

    @cached_property
    def centre(self) -> torch.Tensor:
        """The mean of all rows, (E,), in the table's dtype."""
        return self.rows.float().mean(0).to(self.rows.dtype)

    @cached_property
    def _unit(self) -> torch.Tensor:
        return nn.functional.normalize(self.rows.float(), dim=-1).to(self.rows.dtype)

    def mean(self, weights: torch.Tensor, *, all_rows: bool = False) -> torch.Tensor:
        """Average the rows under weights (b, V) -> (b, E), in the table's dtype.

        On a CPU only the heaviest rows of the table are read, unless `all_rows`: the weights left out are at most
        LEFT_OUT of their sum, which moves a mean by at most LEFT_OUT * max|row|.
        """
        weights = weights.to(self.rows.device)
        every = all_rows or self.rows.device.type != "cpu" or self._small
        found = None if every else self._mean_of_heaviest(weights)
        return weights.to(self.rows.dtype) @ self.rows if found is None else found

    @property
    def _small(self) -> bool:
        return self.rows.numel() <= SMALL

    def _mean_of_heaviest(self, weights: torch.Tensor) -> torch.Tensor | None:
        """Return the means; None if one product with the whole table is cheaper or the weights are not finite."""
        sizes = weights.abs()
        total = sizes.sum(-1, keepdim=True)
        # V weights below this add up to at most LEFT_OUT of the total, so the tail need not be summed.
        heavy = torch.from_numpy(np.flatnonzero(sizes.float().numpy() > total.float().numpy() * (LEFT_OUT / len(self))))
        if len(heavy) > len(self) or not total.isfinite().all():
            return None
        first = torch.searchsorted(heavy, torch.arange(len(weights)) * len(self))  # of each mean; `heavy` is sorted
        chosen = weights.flatten()[heavy].to(self.rows.dtype)
        return nn.functional.embedding_bag(heavy % len(self), self.rows, first, mode="sum", per_sample_weights=chosen)

    def nearest(self, rows: torch.Tensor, guesses: torch.Tensor | None = None) -> torch.Tensor:
        """Return the ids (b,) of the nearest rows by cosine; the first wins ties.

        The lengths of the given `rows` do not affect the order, so only the table's rows are normalized. `guesses`
        (b,) are ids close to the nearest ones: if a guess makes the result certain, the whole table is not searched.
        """
        rows = rows.to(self.rows.dtype)
        if guesses is None or self._small or self.rows.device.type != "cpu":  # there one product costs least
            return self._look_through(rows)
        ids = self._among_neighbours(rows, guesses)
        open = ids < 0
        return ids.masked_scatter(open, self._look_through(rows[open]))

    def nearer(self, rows: torch.Tensor, ids: torch.Tensor, rivals: torch.Tensor) -> torch.Tensor:
        """Return (b,) True if rows (b, E) are certainly nearer to their ids (b,) than to all their rivals (b, n)."""
        cosines = self._cosines(rows, torch.cat([ids[:, None], rivals], 1))
        return cosines[:, 0] > cosines[:, 1:].amax(-1) + self._rounding

    def _look_through(self, rows: torch.Tensor) -> torch.Tensor:
        size = BLOCK if self.rows.device.type == "cpu" else LARGE_BLOCK
        return torch.cat([argmax(block @ self._unit.T) for block in rows.split(size)])

    def _among_neighbours(self, rows: torch.Tensor, guesses: torch.Tensor) -> torch.Tensor:
        """Return the ids (b,) of the nearest rows that are certainly among the neighbors of the guesses, else -1.

        That is certain if a row's angle to its guess is less than half of the angle between the guess and everything
        that is not its neighbor: those are then farther from the row than the guess is.
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
        """Return the rows (b, n) closest to ids (b,), including their own, and a bound (b,) on other cosines."""
        asked = ids.tolist()
        new = torch.tensor(sorted({*asked} - {*self._neighbours}), dtype=torch.long, device=ids.device)
        for some in new.split(BLOCK):
            found = (self._unit[some] @ self._unit.T).topk(min(NEIGHBOURS, len(self)), dim=-1)
            each = zip(found.indices.unbind(), found.values[:, -1].tolist(), strict=True)
            self._neighbours.update(zip(some.tolist(), each, strict=True))
        near, edges = zip(*(self._neighbours[id] for id in asked), strict=True)
        return torch.stack(near), torch.tensor(edges, device=ids.device)

    def _cosines(self, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Return the cosines (b, n) of rows (b, E) and n ids each (b, n), float32."""
        unit = nn.functional.normalize(rows.float(), dim=-1)
        return (self._unit[ids].float() @ unit[:, :, None])[:, :, 0]

    @property
    def _rounding(self) -> float:
        """A bound on the rounding error of a difference between two cosines."""
        return 2 * torch.finfo(self.rows.dtype).eps + SUMMED


def digest_of_all(tensors: Iterable[tuple[str, torch.Tensor]], dtype: torch.dtype | None = None) -> str:
    """Return 16 hexadecimal digits for named tensors, as `dtype` has their values; pieces are read in parallel."""
    digest = hashlib.sha256()
    with ThreadPoolExecutor() as threads:
        for name, tensor in tensors:
            digest.update(f"{name} {tuple(tensor.shape)} {dtype or tensor.dtype};".encode())
            pieces = tensor.detach().reshape(-1).split(PIECE)
            for piece in threads.map(lambda piece: tensor_digest(piece.to(dtype or piece.dtype)), pieces):
                digest.update(piece.encode())
    return digest.hexdigest()[:16]


def tensors_of(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors by name. Those that accelerate has offloaded are fetched, never while the model computes."""
    for path, module in model.named_modules():
        below = tuple(f"{child}." for child, _ in module.named_children())
        fetched: AbstractContextManager[None] = nullcontext()
        if hasattr(module, "_hf_hook"):
            from accelerate.utils import align_module_device  # late: an optional package, present if the hook is

            fetched = align_module_device(module)  # fetches offloaded weights
        with fetched:
            for name, tensor in module.state_dict().items():
                if isinstance(tensor, torch.Tensor) and not name.startswith(below):
                    yield from _plain(f"{path}.{name}", tensor)


def _plain(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a tensor, or the plain tensors of a packed one (torchao)."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield name, tensor
        return
    for part in tensor.__tensor_flatten__()[0]:
        yield from _plain(f"{name}.{part}", getattr(tensor, part))


# On a CPU numpy searches are up to ten times as fast as torch (2.13), with the same results.


def argmax(values: torch.Tensor) -> torch.Tensor:
    """Return the ids (...) of the largest values (..., V); the first wins ties."""
    if not _on_cpu(values):
        return values.argmax(-1)
    return torch.from_numpy(np.asarray(values.numpy().argmax(-1)))


def largest(values: torch.Tensor, k: int, *, overwrite: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the ids (b, k) and values (b, k) of the largest finite values (b, V), in order.

    If V is smaller than k, all V. On a CPU the first wins ties, and `overwrite` saves a copy of the values.
    """
    k = min(k, values.shape[-1])
    if values.device.type != "cpu":
        found = values.topk(k, dim=-1)  # its order of equal values is not known
        return found.indices, found.values
    if k > SEARCHES or not _on_cpu(values):
        ordered = values.sort(dim=-1, descending=True, stable=True)
        return ordered.indices[:, :k], ordered.values[:, :k]
    left, rows = values.numpy() if overwrite else values.numpy().copy(), np.arange(len(values))
    ids, best = np.empty((len(values), k), np.int64), np.empty((len(values), k), left.dtype)
    for i in range(k):
        ids[:, i] = at = left.argmax(-1)
        best[:, i] = left[rows, at]
        left[rows, at] = -np.inf
    return torch.from_numpy(ids), torch.from_numpy(best)


def count_nonzero(values: torch.Tensor) -> torch.Tensor:
    """Return the number (...) of nonzero values (..., V)."""
    if not _on_cpu(values):
        return values.count_nonzero(-1)
    return torch.from_numpy(np.asarray(np.count_nonzero(values.numpy(), axis=-1)))


def dots(values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return the sums (...) of products of values (..., V); the other rows of the batch do not affect them."""
    if not _on_cpu(values) or values.shape[-1] > UNSPLIT:
        summed: torch.Tensor = torch.linalg.vecdot(values, others)
        return summed
    return torch.from_numpy(np.asarray(np.vecdot(values.numpy(), others.numpy())))


def _on_cpu(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and values.dtype != torch.bfloat16  # numpy has no bfloat16
