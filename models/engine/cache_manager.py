"""The KV cache and the prefix cache of one engine, within one budget."""

from __future__ import annotations

import threading
import weakref
from collections import abc
from dataclasses import dataclass

import torch

from sottovoce.models.engine.kv_cache import KVCache
from sottovoce.models.engine.prefix_cache import PrefixCache
from sottovoce.models.engine.runner import ROUND, whole_rounds
from sottovoce.models.engine.sequence import Job, Sequence
from sottovoce.models.huggingface.devices import free_memory, out_of_memory
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import Kind

ON_CPU, ON_ACCELERATOR = 0.25, 0.7  # of the free memory when an engine starts; the rest is for passes and payloads
LEAST = 1 / 8  # of the free memory: an engine's minimum, whatever was promised to others
ROOM = 8, 1024  # slots and columns to begin with where steps are captured: a move makes them be captured again
UNKNOWN = 4 << 30  # bytes, for a model without keys and values


@dataclass(frozen=True)
class Limits:
    """The limits of an engine: slots, memory, exactness, prefix reuse."""

    slots: int
    """Maximum number of sequences that run at a time."""
    memory: int | None = None
    """Bytes of keys and values, prefixes included; None means a share of the free memory."""
    exact: bool = False
    """Bitwise equal results in any batch: every step fills all slots, and prompts are read alone in fixed chunks."""
    reuse: bool = True
    """Cache prefixes."""

    @property
    def block(self) -> int:
        """Positions of a block of the prefix cache; if `exact`, the positions that one pass reads."""
        return ROUND if self.exact else 1


class CacheManager:
    """The keys and values of one engine: those of running sequences, in slots, and the cached prefixes."""

    def __init__(self, network: Network, limits: Limits) -> None:
        self.limits = limits
        self.kv = KVCache(network.kinds)
        self._first = ROOM if network.uses_cuda_graphs else (0, 0)
        self.budget = default_budget(network.kinds) if limits.memory is None else limits.memory
        """Bytes for the KV cache and the prefix cache together."""
        self.prefixes = PrefixCache(self.budget if limits.reuse else 0, limits.block)
        with _lock:
            _managers.add(self)

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values in use now."""
        return self.prefixes.nbytes + self.kv.allocated

    def may_take(self, device: torch.device) -> int:
        """Return the bytes of a device that this engine may still allocate."""
        return int(max(self.budget - self.nbytes, 0) * shares_of(self.kv.kinds).get(device, 0.0))

    def room_for(self, job: Job, running: list[Sequence], waiting: int) -> bool:
        """Make the slots large enough for one more sequence; return False if the budget does not allow it.

        They grow for waiting sequences too, or to twice the running ones, so that few new sequences move the others.
        """
        kv, taken = self.kv, len(running)
        slots = self.limits.slots if self.limits.exact else taken + 1
        columns = max([_columns(job), *(_columns(each.job) for each in running)])
        if slots <= kv.slots and columns <= kv.columns:
            return True
        roomy = min(max(slots + waiting, 2 * taken), self.limits.slots)
        wide = max(_roomy(columns), kv.columns if taken else 0)
        used = [each.filled for each in running]
        sizes = [(roomy, wide), (roomy, columns), (slots, columns)]
        first = min(max(roomy, self._first[0]), self.limits.slots), max(wide, self._first[1])
        if kv.nbytes(*first) <= self.budget // 4:
            sizes.insert(0, first)
        return any(self._resize(*size, used) for size in sizes)

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
        """Release large slots when no sequence runs, so that prefixes can use the memory."""
        if self.kv.allocated > self.budget // 4:
            self.kv = KVCache(self.kv.kinds)
            self.prefixes.budget = self.budget if self.limits.reuse else 0

    def alone_takes(self, job: Job) -> int:
        """Return the bytes of keys and values that a job needs if no other job runs."""
        return self.kv.nbytes(self.limits.slots if self.limits.exact else 1, _columns(job))


def _columns(job: Job) -> int:
    """Return the columns that a sequence may fill, rounded up to a multiple of ROUND."""
    return whole_rounds(job.request.longest + 1)


def _roomy(columns: int) -> int:
    """Return a larger width, 2 or 3 times a power of two, so that a growing conversation rarely moves its columns."""
    power = 1 << (columns - 1).bit_length()
    return power * 3 // 4 if columns <= power * 3 // 4 else power


_managers: weakref.WeakSet[CacheManager] = weakref.WeakSet()
"""All managers of the process: what they may still allocate is not free for a new one."""
_lock = threading.Lock()


def default_budget(kinds: abc.Sequence[Kind]) -> int:
    """Return the default budget for keys and values in bytes, limited by the fullest of a model's devices.

    Bytes that other engines on the same device may still allocate do not count as free.
    """
    shares = shares_of(kinds)
    return min((int(_available(device) / share) for device, share in shares.items()), default=UNKNOWN)


def shares_of(kinds: abc.Sequence[Kind]) -> dict[torch.device, float]:
    """Return the share of a position's keys and values on each device; the shares add up to 1."""
    total, shares = sum(kind.nbytes for kind in kinds), dict[torch.device, float]()
    for kind in kinds:
        shares[kind.device] = shares.get(kind.device, 0.0) + kind.nbytes / total
    return shares


def _available(device: torch.device) -> float:
    with _lock:
        promised = sum(manager.may_take(device) for manager in _managers)
    free = free_memory(device)
    return max(free - promised, LEAST * free) * (ON_CPU if device.type == "cpu" else ON_ACCELERATOR)
