"""Who sits in which slot: rows that decode first, behind them rows that still read their prompts.

No slot between them is empty, so that a step's rows are one window of the slots: who leaves is
followed by the last of those that decode, and that one by the last of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sottovoce.models.keys import chain
from sottovoce.models.memory import default_budget, out_of_memory
from sottovoce.models.network import Network
from sottovoce.models.prefix import BLOCK, PrefixCache
from sottovoce.models.reading import ROUND, whole_rounds
from sottovoce.models.row import Job, Row
from sottovoce.models.slots import Slots


@dataclass(frozen=True)
class Limits:
    """What the rows of an engine may take."""

    rows: int
    """Slots."""
    memory: int | None = None
    """Bytes of keys and values, slots and prefixes together; None is a share of what is free."""
    exact: bool = False
    """Equal bits whatever the company: all slots in every step, prompts read alone in fixed chunks."""
    reuse: bool = True
    """Keep prefixes."""

    @property
    def block(self) -> int:
        """Positions of a block of the prefix cache; 0 where there is none. Exact blocks are whole chunks."""
        return (ROUND if self.exact else BLOCK) if self.reuse else 0


class Seats:
    """Rows in slots, and the prefixes that they leave behind."""

    def __init__(self, network: Network, limits: Limits) -> None:
        """Start with no slot."""
        self.limits, self._network = limits, network
        self._stamp = network.stamp
        self.rows: list[Row] = []
        self.ready = 0
        """How many decode: those in the first slots."""
        self.slots = Slots(network.kinds)
        self.budget = default_budget(network.kinds) if limits.memory is None else limits.memory
        """Bytes of keys and values, slots and prefixes together."""
        self.prefix = PrefixCache(self.budget if limits.reuse else 0, limits.block or BLOCK, whole=limits.exact)
        self.span = torch.arange(0)
        """0 .. columns, on the network's device."""

    @property
    def nbytes(self) -> int:
        """Keys and values, now."""
        return self.prefix.nbytes + self.slots.nbytes(self.slots.rows, self.slots.columns)

    def room_for(self, job: Job, waiting: int = 0) -> bool:
        """Make the slots large enough for one row more; False where the budget forbids it.

        They grow for those that wait too, and to twice those that sit: not every newcomer moves all.
        """
        slots, taken = self.slots, len(self.rows)
        rows = self.limits.rows if self.limits.exact else taken + 1
        columns = max([_columns(job), *(_columns(row.job) for row in self.rows)])
        if rows <= slots.rows and columns <= slots.columns:
            return True
        roomy = min(max(rows + waiting, 2 * taken), self.limits.rows)
        wide = max(_roomy(columns), slots.columns if taken else 0)
        return any(self._resize(*size) for size in ((roomy, wide), (roomy, columns), (rows, columns)))

    def _resize(self, rows: int, columns: int) -> bool:
        size = self.slots.nbytes(rows, columns)
        if size > self.budget:
            return False
        self.prefix.shrink(self.budget - size)
        try:
            self.slots.resize(rows, columns, [row.filled for row in self.rows])
        except Exception as error:
            if not out_of_memory(error):
                raise
            return False
        self.prefix.budget = self.budget - size if self.limits.reuse else 0
        self.span = torch.arange(columns + 1, device=self._network.device)
        return True

    def rest(self) -> None:
        """Nobody is seated: give large slots back, so that prefixes may have the memory."""
        if self.slots.nbytes(self.slots.rows, self.slots.columns) > self.budget // 4:
            self.slots = Slots(self.slots.kinds)
            self.prefix.budget = self.budget if self.limits.reuse else 0

    def alone_takes(self, job: Job) -> int:
        """Bytes of keys and values that a job needs without company."""
        return self.slots.nbytes(self.limits.rows if self.limits.exact else 1, _columns(job))

    def look(self) -> None:
        """Between two passes: forget what another model read, as one with other weights or hooks is."""
        stamp = self._network.stamp
        if stamp is None or stamp != self._stamp:
            self.prefix.shrink(0)
            for row in self.rows:
                row.mixed = True
        self._stamp = stamp

    def take(self, row: Row) -> None:
        """Seat a row behind all others, with as much of its prompt as is known."""
        job = row.job
        row.filled = row.reused = self.prefix.restore(job.blocks, job.keys[:-1], self.slots, len(self.rows))
        row.mixed = self._stamp is None
        self.rows.append(row)

    def make_ready(self, i: int) -> None:
        """Let the row in slot i decode: it goes behind those that do."""
        rows, to = self.rows, self.ready
        if i != to:
            self.slots.swap(i, to, max(rows[i].filled, rows[to].filled))
            rows[i], rows[to] = rows[to], rows[i]
        self.ready += 1

    def remember(self, i: int, *, replied: bool) -> None:
        """Keep the prompt of slot i for others, or with `replied` all that was read."""
        row = self.rows[i]
        if self.prefix.budget and not row.mixed:
            keys = row.keys(self._network.table.key) if replied else row.job.keys
            self.prefix.store(chain(keys, self.prefix.block, row.job.blocks), keys, self.slots, i)

    def remove(self, gone: Sequence[int]) -> list[int]:
        """Take rows out of their slots; returns the former places of those that decode, in their new order."""
        order = list(range(self.ready))
        for i in sorted(gone, reverse=True):
            if self.rows[i].finish is None:  # failed or cancelled: what it left may not be finite
                self.slots.clear(i, self.slots.columns)
            if i < self.ready:
                self.ready -= 1
                self._move(self.ready, i)
                order[i] = order[self.ready]
                order.pop()
                i = self.ready
            self._move(len(self.rows) - 1, i)
            self.rows.pop()
        return order

    def _move(self, source: int, target: int) -> None:
        """What was read last is not known to be finite yet, so nothing of it may stay behind."""
        if source != target:
            self.slots.copy(source, target, self.rows[source].filled)
            self.slots.clear(source, self.rows[source].filled)
            self.rows[target] = self.rows[source]


def _columns(job: Job) -> int:
    """What a row may come to fill, in whole rounds."""
    return whole_rounds(job.request.length + job.request.stop.max_new + 1)


def _roomy(columns: int) -> int:
    """A little more, so that a conversation does not move at each of its rounds: 2 or 3 times a power of two."""
    power = 1 << (columns - 1).bit_length()
    return power * 3 // 4 if columns <= power * 3 // 4 else power
