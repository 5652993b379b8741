"""The KV cache and the prefix cache of one engine, within one budget."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sottovoce.models.engine.kv_cache import KVCache
from sottovoce.models.engine.memory import default_budget, hold, out_of_memory, shares_of
from sottovoce.models.engine.prefix_cache import PrefixCache
from sottovoce.models.engine.runner import ROUND, whole_rounds
from sottovoce.models.engine.sequence import Job, Sequence
from sottovoce.models.huggingface.network import Network


@dataclass(frozen=True)
class Limits:
    """What the sequences of an engine may take."""

    slots: int
    """Sequences at a time."""
    memory: int | None = None
    """Bytes of keys and values, prefixes included; None is a share of what is free."""
    exact: bool = False
    """Equal bits whatever the batch: all slots in every step, prompts read alone in fixed chunks."""
    reuse: bool = True
    """Keep prefixes."""

    @property
    def block(self) -> int:
        """Positions of a block of the prefix cache: where `exact`, what is read in one pass."""
        return ROUND if self.exact else 1


class CacheManager:
    """Keys and values: those of sequences in their slots, and the prefixes that they leave behind."""

    def __init__(self, network: Network, limits: Limits) -> None:
        self.limits = limits
        self.kv = KVCache(network.kinds)
        self.budget = default_budget(network.kinds) if limits.memory is None else limits.memory
        """Bytes, of both."""
        self.prefixes = PrefixCache(self.budget if limits.reuse else 0, limits.block)
        hold(self)

    @property
    def nbytes(self) -> int:
        """Keys and values, now."""
        return self.prefixes.nbytes + self.kv.held

    def may_take(self, device: torch.device) -> int:
        """Bytes of a device that it may take yet."""
        return int(max(self.budget - self.nbytes, 0) * shares_of(self.kv.kinds).get(device, 0.0))

    def room_for(self, job: Job, running: list[Sequence], waiting: int) -> bool:
        """Make the slots large enough for one sequence more; False where the budget forbids it.

        They grow for those that wait too, and to twice those that run: not every newcomer moves all.
        """
        kv, taken = self.kv, len(running)
        slots = self.limits.slots if self.limits.exact else taken + 1
        columns = max([_columns(job), *(_columns(each.job) for each in running)])
        if slots <= kv.slots and columns <= kv.columns:
            return True
        roomy = min(max(slots + waiting, 2 * taken), self.limits.slots)
        wide = max(_roomy(columns), kv.columns if taken else 0)
        used = [each.filled for each in running]
        return any(self._resize(*size, used) for size in ((roomy, wide), (roomy, columns), (slots, columns)))

    def _resize(self, slots: int, columns: int, used: list[int]) -> bool:
        size = self.kv.nbytes(slots, columns)
        if size > self.budget:
            return False
        self.prefixes.shrink(self.budget - size)
        try:
            self.kv.resize(slots, columns, used)
        except Exception as error:
            if not out_of_memory(error):
                raise
            return False
        self.prefixes.budget = self.budget - size if self.limits.reuse else 0
        return True

    def rest(self) -> None:
        """Nobody runs: give large slots back, so that prefixes may have the memory."""
        if self.kv.held > self.budget // 4:
            self.kv = KVCache(self.kv.kinds)
            self.prefixes.budget = self.budget if self.limits.reuse else 0

    def alone_takes(self, job: Job) -> int:
        """Bytes of keys and values that a job needs where nobody else runs."""
        return self.kv.nbytes(self.limits.slots if self.limits.exact else 1, _columns(job))


def _columns(job: Job) -> int:
    """What a sequence may come to fill, in whole rounds."""
    return whole_rounds(job.request.length + job.request.stop.max_new + 1)


def _roomy(columns: int) -> int:
    """A little more, so that a conversation does not move at each of its rounds: 2 or 3 times a power of two."""
    power = 1 << (columns - 1).bit_length()
    return power * 3 // 4 if columns <= power * 3 // 4 else power
