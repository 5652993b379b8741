"""The records of replies besides their ids: states, mean embeddings, and statistics of the logits.

The passes of one batch are stored together, as whole tensors. Every few passes they are reduced to numbers, because the
statistics of one position take as many calls as those of hundreds. Then each sequence gets copies of its own rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.request import Record, Sparse, Stats
from sottovoce.models.huggingface.devices import upload
from sottovoce.models.huggingface.embedding_table import Table, largest
from sottovoce.models.huggingface.passes import FINAL

LATER = -2  # in place of an id that is not looked up yet
MAX_PENDING = 1024  # maximum number of means that are looked up at a time
STEPS = 32  # maximum number of waiting passes
WAITING = 1 << 24  # maximum number of waiting logits and weights of a batch: 64 MB
WAITING_ON_GPU = 1 << 27  # there: each sequence's own rows take a call each
CACHED = 1 << 17  # numbers of which a core's cache holds a few results; of fewer, calls cost more than sums
Part = tuple[str, object]
"""The name of a series of tensors, such as "states", and which of them: a layer, or a table's key."""


class Means(NamedTuple):
    """The mean embeddings of some rows of a pass."""

    at: Sequence[int]
    """Their indices in the batch."""
    rows: Mapping[str, torch.Tensor]
    """The means (g, E) by table key; of a table that a sequence did not ask for, its row is not recorded."""
    heaviest: torch.Tensor
    """The tokens (g,) of the largest averaging weights."""
    weights: torch.Tensor
    """The averaging weights (g, V), of which the largest are recorded; (g, 0) if nobody records any."""


@dataclass(eq=False)
class Pending:
    """The means of all sequences on one network without their nearest tokens; the first use looks up all of them.

    A product of the whole table with many means costs little more than with one.
    """

    table: Table
    """The embedding rows of the tokens."""
    _places: list[tuple[list[int], int]] = field(default_factory=list)
    _rows: list[torch.Tensor] = field(default_factory=list)
    _guesses: list[torch.Tensor] = field(default_factory=list)

    def add(self, places: Sequence[tuple[list[int], int]], rows: torch.Tensor, guesses: torch.Tensor) -> None:
        """Queue means (n, E), each with its token's place in a list of ids; `guesses` (n,) are tokens close to them."""
        self._places += places
        self._rows.append(rows)
        self._guesses.append(guesses)
        if len(self._places) >= MAX_PENDING:
            self.look_up()

    def look_up(self) -> None:
        """Look up all waiting means, and put their tokens in their places."""
        if not self._places:
            return
        rows, guesses = torch.cat(self._rows).split(MAX_PENDING), torch.cat(self._guesses).split(MAX_PENDING)
        found = [id for part in zip(rows, guesses, strict=True) for id in self.table.nearest(*part).tolist()]
        for (ids, at), id in zip(self._places, found, strict=True):
            ids[at] = id
        self._places, self._rows, self._guesses = [], [], []  # last: if memory runs out, they still wait


class Recorder:
    """The records of one sequence."""

    def __init__(self, record: Record, pending: Pending, normed: int | None = None, tables: Sequence[str] = ()) -> None:
        """`normed` is the layer whose state is recorded after the final norm; `tables` have keys of means."""
        self.record, self.pending, self.tables = record, pending, tables
        self.layers = {layer: FINAL if layer == normed else layer for layer in record.layers}
        """The name of a layer's states in a pass."""
        self.ids: list[int] = []
        """The tokens so far, one for each pass; LATER for a mean whose token is not looked up."""
        self.recent: Recent | None = None
        """The passes of which it has not got its rows yet."""
        self._parts: dict[Part, list[torch.Tensor]] = defaultdict(list)

    def add(self, part: Part, tensor: torch.Tensor) -> None:
        """Take a copy of more positions (n, ...)."""
        self._parts[part].append(tensor.clone())

    def known_ids(self, n: int) -> list[int]:
        """Return the first n tokens, and look up those that are not known yet."""
        if LATER in self.ids:
            if self.recent:
                self.recent.queue()
            self.pending.look_up()
        return self.ids[:n]

    def states(self, n: int) -> dict[int, torch.Tensor]:
        """Return the first n states (n, H) by layer, on the CPU."""
        return {layer: self._first(("states", layer), n) for layer in self.layers}

    def mean_rows(self, n: int) -> dict[str, torch.Tensor]:
        """Return the first n means (n, E) by table, on the model's device."""
        return {key: self._first(("means", key), n) for key in self.tables} if n else {}

    def stats(self, n: int) -> Stats | None:
        """Return the statistics of the first n positions; None if they are not recorded."""
        if not self.record.stats:
            return None
        none = torch.zeros(0, self.record.top)
        kept = (self._first(("stats", i), n).cpu() for i in range(3)) if n else (torch.zeros(0, 4), none.long(), none)
        numbers, ids, logprobs = kept
        logprob, entropy, varentropy, kurtosis = numbers.unbind(-1)
        return Stats(logprob, entropy, varentropy, kurtosis, ids, logprobs)

    def sparse(self, n: int) -> Sparse | None:
        """Return the largest weights of the first n positions; None if there are none."""
        if not n or not self.record.sparse or not self.tables:
            return None
        ids, weights = (self._first(("largest", i), n).cpu() for i in range(2))
        return Sparse(ids, weights, weights.sum(-1))

    def _first(self, part: Part, n: int) -> torch.Tensor:
        if self.recent:
            self.recent.settle()
        self._parts[part] = [torch.cat(self._parts[part])]  # replaced: no second copy stays
        return self._parts[part][0][:n]


class Recent:
    """The last passes of a batch, until each of its sequences gets its own rows."""

    def __init__(self, recorders: Sequence[Recorder], pending: Pending) -> None:
        """Row i of each pass belongs to recorder i."""
        self._recorders, self._pending = recorders, pending
        self._most = WAITING if pending.table.rows.device.type == "cpu" else WAITING_ON_GPU
        self._layers = {name for each in recorders for name in each.layers.values()}
        self._counted = [i for i, each in enumerate(recorders) if each.record.stats]
        self._forget()
        for each in recorders:
            each.recent = self

    def _forget(self) -> None:
        self._starts = [len(each.ids) for each in self._recorders]
        self._states: list[Mapping[int, torch.Tensor]] = []
        self._logits: list[torch.Tensor] = []
        self._mean_rows: list[Sequence[Means]] = []
        self._owners: list[Sequence[int]] = []
        self._queued = self._waiting = 0

    def add(
        self,
        states: Mapping[int, torch.Tensor],
        logits: torch.Tensor,
        mean_rows: Sequence[Means] = (),
        owners: Mapping[int, int] | None = None,
    ) -> None:
        """Take a pass: states (r, H) by layer, logits (r, V), and the means of some rows, the same in each pass.

        `owners` has the recorders of the rows that count, in the order of their positions; None is a row for each.
        """
        rows = dict(enumerate(range(len(self._recorders)))) if owners is None else owners
        self._owners.append(range(len(rows)) if owners is None else [*rows.values()])
        self._states.append({layer: _rows(states[layer], [*rows]) for layer in self._layers})
        self._mean_rows.append(mean_rows)
        self._waiting += sum(means.weights.numel() for means in mean_rows)
        if self._counted:
            counted = {*self._counted}
            self._logits.append(_rows(logits, [row for row, owner in rows.items() if owner in counted]))
            self._waiting += self._logits[-1].numel()

    @property
    def full(self) -> bool:
        """True if it must settle now."""
        return len(self._mean_rows) >= STEPS or self._waiting >= self._most

    def settle(self) -> None:
        """Give each sequence its rows of the passes so far, and forget these."""
        if self._mean_rows:
            self.queue()
            self._give_states()
            self._give_means()
            if self._counted:
                self._pending.look_up()
                self._give_statistics()
            self._forget()

    def queue(self) -> None:
        """Queue the means without known tokens."""
        for n, group in enumerate(self._mean_rows[self._queued :], self._queued):
            for means in group:
                places = [(self._recorders[i].ids, self._starts[i] + n) for i in means.at]
                open = [j for j, (ids, at) in enumerate(places) if at < len(ids) and ids[at] == LATER]
                if open:
                    rows, guesses = means.rows[self._pending.table.key], means.heaviest
                    if len(open) < len(places):
                        at = upload(open, rows.device)
                        rows, guesses = rows[at], guesses[at]
                    self._pending.add([places[j] for j in open], rows, guesses)
        self._queued = len(self._mean_rows)

    def _places(self, recorders: Sequence[int]) -> list[Sequence[int]]:
        """Return, for each of some recorders, its rows among the rows of these recorders in all passes together."""
        n = len(recorders)
        if all(isinstance(owners, range) for owners in self._owners):
            return [range(i, n * len(self._owners), n) for i in range(n)]
        rows: dict[int, list[int]] = {i: [] for i in recorders}
        owned = (owner for owners in self._owners for owner in owners if owner in rows)
        for row, owner in enumerate(owned):
            rows[owner].append(row)
        return list(rows.values())

    def _give_states(self) -> None:
        rows = self._places(range(len(self._recorders)))
        for name in self._layers:
            block = torch.cat([states[name] for states in self._states]).cpu()
            for each, at in zip(self._recorders, rows, strict=True):
                for layer, known in each.layers.items():
                    if known == name:
                        each.add(("states", layer), _rows(block, at))

    def _give_means(self) -> None:
        for group in zip(*self._mean_rows, strict=True):
            for key in group[0].rows:
                rows = torch.stack([means.rows[key] for means in group])
                self._give(group[0].at, ("means", key), rows.unbind(1))
            if k := max(self._recorders[i].record.sparse for i in group[0].at):
                found = zip(*(largest(some, k) for some in _blocks([means.weights for means in group])), strict=True)
                for i, parts in enumerate(found):
                    self._give(group[0].at, ("largest", i), torch.cat(parts).unflatten(0, (len(group), -1)).unbind(1))

    def _give_statistics(self) -> None:
        rows, chosen = self._places(self._counted), [0] * sum(map(len, self._logits))
        for i, at in zip(self._counted, rows, strict=True):
            for row, id in zip(at, self._recorders[i].ids[self._starts[i] :], strict=False):
                chosen[row] = id
        ids, top = upload(chosen, self._logits[0].device), max(self._recorders[i].record.top for i in self._counted)
        found = []
        for block in _blocks(self._logits):
            found.append(sampling.moments(block, ids[: len(block)], top))
            ids = ids[len(block) :]
        joined = map(torch.cat, zip(*found, strict=True))
        for i, part in enumerate(sampling.statistics(*joined)):
            self._give(self._counted, ("stats", i), [_rows(part, at) for at in rows])

    def _give(self, at: Sequence[int], part: Part, blocks: Sequence[torch.Tensor]) -> None:
        """Give recorders their rows (n, ...), as far as each records them."""
        name, which = part
        for i, rows in zip(at, blocks, strict=True):
            each = self._recorders[i]
            if name == "means":
                if which in each.tables:
                    each.add(part, rows)
            elif name == "largest":
                if each.record.sparse:
                    each.add(part, rows[:, : each.record.sparse])
            else:
                each.add(part, rows[:, : each.record.top] if which else rows)


def _rows(block: torch.Tensor, at: Sequence[int]) -> torch.Tensor:
    """Return some rows of (r, ...): a view if they are all of them, or evenly spaced."""
    if isinstance(at, range):
        return block[at.start : at.stop : at.step]
    return block if len(at) == len(block) else block[upload(at, block.device)]


def _blocks(passes: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield the rows (b, V) of passes in order, on a CPU a few at a time so that results stay in its cache."""
    rows, size = passes[0].shape  # a pass that checks proposed tokens may have more or fewer
    on_cpu, several = passes[0].device.type == "cpu", max(CACHED // (max(rows, 1) * size), 1)
    together = several if on_cpu or several == 1 else len(passes)
    for i in range(0, len(passes), together):
        tensor = torch.cat([*passes[i : i + together]]) if together > 1 else passes[i]
        yield from tensor.split(max(CACHED // size, 1) if on_cpu else len(tensor))
