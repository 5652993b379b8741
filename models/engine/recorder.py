"""The records of a reply besides its ids: states, mean embeddings, and statistics of the logits.

Each pass appends its tensors; every few passes they are reduced to numbers, because the statistics of one position
take as many calls as those of thirty. Nothing is kept of the other sequences of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.request import Record, Sparse, Stats
from sottovoce.models.huggingface.devices import upload
from sottovoce.models.huggingface.embedding_table import Table
from sottovoce.models.huggingface.passes import FINAL

LATER = -2  # in place of an id that is not looked up yet
MAX_PENDING = 1024  # maximum number of waiting means


class Pending:
    """The waiting means of all sequences on one network; the first request for a token looks all of them up.

    A product with the whole table costs little more over many means than over one.
    """

    def __init__(self, table: Table) -> None:
        """`table` has the embedding rows of the tokens."""
        self.table = table
        self._places: list[tuple[list[int], int]] = []
        self._mean_rows: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, ids: list[int], mean: torch.Tensor, guess: torch.Tensor) -> None:
        """Queue a mean (E,) whose token comes next in `ids`; `guess` () is a token close to it."""
        self._places.append((ids, len(ids)))
        ids.append(LATER)
        self._mean_rows.append((mean, guess))
        if len(self._mean_rows) >= MAX_PENDING:
            self.look_up()

    def look_up(self) -> None:
        """Look up all waiting means and put their nearest tokens in their places."""
        if not self._mean_rows:
            return
        rows, guesses = map(torch.stack, zip(*self._mean_rows, strict=True))
        found = self.table.nearest(rows, guesses).tolist()
        for (ids, at), id in zip(self._places, found, strict=True):
            ids[at] = id
        self._places, self._mean_rows = [], []  # last: if memory runs out, they still wait


STEPS = 32  # maximum number of waiting positions
WAITING = 1 << 21  # maximum number of waiting logits of one sequence: 8 MB
CACHED = 1 << 17  # numbers that fit in a core's cache
Largest = tuple[torch.Tensor, torch.Tensor]
"""Ids and values (k,) of the largest averaging weights of a position."""
_Tensors = tuple[torch.Tensor, ...]


class _Series:
    """One tensor for each position; `make` turns the waiting ones, stacked, into the stored ones."""

    def __init__(self, make: Callable[[torch.Tensor], _Tensors]) -> None:
        self._make = make
        self._waiting: list[torch.Tensor] = []
        self._parts: list[_Tensors] = []

    def append(self, tensor: torch.Tensor) -> None:
        self._waiting.append(tensor)
        if len(self._waiting) >= STEPS or len(self._waiting) * tensor.numel() >= WAITING:
            self.settle()

    def settle(self) -> None:
        if self._waiting:
            self._parts.append(self._make(torch.stack(self._waiting)))
            self._waiting.clear()

    def first(self, n: int) -> _Tensors:
        """Return the tensors of the first n positions; () if n is 0."""
        self.settle()
        self._parts = [tuple(map(torch.cat, zip(*self._parts, strict=True)))]  # replaced: no second copy stays
        return tuple(each[:n] for each in self._parts[0]) if n else ()


class Recorder:
    """Records of one sequence, position by position."""

    def __init__(self, record: Record, normed: int | None, pending: Pending) -> None:
        """`normed` is the layer whose state is recorded after the final norm; means without tokens go to `pending`."""
        self.record, self._normed, self._pending = record, normed, pending
        self.n = 0
        """Number of positions whose states are recorded."""
        self._states = {layer: _Series(lambda states: (states.cpu(),)) for layer in record.layers}
        self._mean_rows: dict[str, _Series] = {}
        self._ids: list[int] = []
        self._stats = _Series(self._numbers)
        self._sparse = [_Series(lambda values: (values,)) for _ in range(2)]

    def see(self, i: int, states: Mapping[int, torch.Tensor]) -> None:
        """Record row i of the states (b, H) of a pass, by layer."""
        for layer, series in self._states.items():
            series.append(states[FINAL if layer == self._normed else layer][i])
        self.n += 1

    def keep(
        self, id: int | None, logits: torch.Tensor, rows: Mapping[str, torch.Tensor], largest: Largest | None = None
    ) -> None:
        """Record a position: its token, logits (V,), means (E,) by table and their largest weights.

        None stands for the token nearest to the mean in the model's own table, which is looked up on demand.
        """
        for key, row in rows.items():
            self._mean_rows.setdefault(key, _Series(lambda rows: (rows,))).append(row)
        if id is None:
            assert largest is not None, "a mean has a heaviest token"
            self._pending.add(self._ids, rows[self._pending.table.key], largest[0][0])
        else:
            self._ids.append(id)
        if self.record.stats:
            self._stats.append(logits)
        if self.record.sparse and largest is not None:
            for series, values in zip(self._sparse, largest, strict=True):
                series.append(values[: self.record.sparse])

    def _numbers(self, logits: torch.Tensor) -> _Tensors:
        ids = upload(self.ids(len(self._ids))[-len(logits) :], logits.device)
        # On a CPU a few at a time, so that intermediate results stay in its cache.
        n = max(CACHED // logits.shape[-1], 1) if logits.device.type == "cpu" else len(logits)
        blocks = zip(logits.split(n), ids.split(n), strict=True)
        found = [sampling.statistics(block, chosen, self.record.top) for block, chosen in blocks]
        return tuple(map(torch.cat, zip(*found, strict=True)))

    def ids(self, n: int) -> list[int]:
        """Return the first n tokens, and look up those that are pending."""
        if LATER in self._ids:
            self._pending.look_up()
        return self._ids[:n]

    def states(self, n: int) -> dict[int, torch.Tensor]:
        """Return the first n states (n, H) by layer, on the CPU."""
        return {layer: series.first(n)[0] for layer, series in self._states.items()}

    def mean_rows(self, n: int) -> dict[str, torch.Tensor]:
        """Return the first n means (n, E) by table, on the model's device."""
        return {key: series.first(n)[0] for key, series in self._mean_rows.items()} if n else {}

    def stats(self, n: int) -> Stats | None:
        """Return the statistics of the first n positions; None if they are not recorded."""
        if not self.record.stats:
            return None
        none = torch.zeros(0, self.record.top)
        numbers, ids, logprobs = self._stats.first(n) or (torch.zeros(0, 4), none.long(), none)
        logprob, entropy, varentropy, kurtosis = numbers.cpu().unbind(-1)
        return Stats(logprob, entropy, varentropy, kurtosis, ids.cpu(), logprobs.cpu())

    def sparse(self, n: int) -> Sparse | None:
        """Return the largest weights of the first n positions; None if there are none."""
        if not (found := [each.cpu() for series in self._sparse for each in series.first(n)]):
            return None
        ids, weights = found
        return Sparse(ids, weights, weights.sum(-1))
