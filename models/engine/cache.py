"""Keys and values of one engine, within one budget: slots of running sequences, and a cache of prefixes read before.

The tensors of the slots have the layout of `huggingface.passes`, with axes S slots and C columns (positions of a
sequence). A slot is filled from column 0, in place; the last column takes values to discard: the padding of prompts,
and slots that only fill up a shape.

The prefix cache has keys and values of the beginnings of prompts, and of the replies after them. The name of a block
of positions is a digest over the block and all that precedes it, so that a dictionary of digests is a tree of
beginnings. Blocks that were stored together form a run. The least recently used run is evicted first; a use touches a
prompt's last run before its first, so that the beginnings of prompts in use stay longest.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, abc
from dataclasses import dataclass, field
from hashlib import blake2b

import torch

from sottovoce.models.engine.request import DIGEST, Cached, KeysValues, Request
from sottovoce.models.huggingface.devices import free_memory, out_of_memory
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import Kind, Pages
from sottovoce.models.huggingface.rotary import Rotary

ROUND = 64  # exact passes attend to a multiple of this many columns, and cache prefixes in such blocks
ON_CPU, ON_ACCELERATOR = 0.25, 0.7  # of the free memory when an engine starts; the rest is for passes and payloads
LEAST = 1 / 8  # of the free memory: an engine's minimum, whatever was promised to others
ROOM = 8, 1024  # slots and columns to begin with where steps are captured: a move makes them be captured again
UNKNOWN = 4 << 30  # bytes, for a model without keys and values


@dataclass(eq=False)
class KVCache:
    """The tensors of the cache, by slot and column; the scheduler assigns slots to sequences."""

    kinds: tuple[Kind, ...]
    slots: int = 0
    columns: int = 0
    tensors: Pages = ()

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

        Layers with only the first position in the piece get zeros at the others, which they must not see.
        """
        (tensor,), (kind,) = self.tensors, self.kinds
        tensor[:, slot, :, column : column + len(piece) - start] = 0
        for layers, keys, values in (
            (piece.layers, piece.keys[:, :, start:], piece.values[:, :, start:]),
            (piece.others, piece.first_keys[:, :, start:], piece.first_values[:, :, start:]),
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


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive blocks of one sequence that were stored together."""

    start: int
    """The first position."""
    digests: abc.Sequence[bytes]
    pages: Pages

    @property
    def nbytes(self) -> int:
        """Bytes of its tensors."""
        return sum(page.numel() * page.element_size() for page in self.pages)


@dataclass
class PrefixCache:
    """Runs within a budget of bytes."""

    budget: int
    block: int = 1
    """Positions of a block."""
    nbytes: int = 0
    _runs: OrderedDict[Run, None] = field(default_factory=OrderedDict)
    _at: dict[bytes, Run] = field(default_factory=dict)
    """The run that contains a block."""

    def known(self, digests: abc.Sequence[bytes]) -> int:
        """Return how many of a prompt's first blocks are cached."""
        return next((i for i, digest in enumerate(digests) if digest not in self._at), len(digests))

    def restore(self, digests: abc.Sequence[bytes], kv: KVCache, slot: int) -> int:
        """Copy the cached beginning of a prompt to a slot; return its number of positions."""
        known = self.known(digests)
        runs, end = self._touch(digests[:known]), known * self.block
        for run, following in zip(runs, [*(run.start for run in runs[1:]), end], strict=False):
            kv.paste(slot, run.start, run.pages, following - run.start)
        return end

    def store(self, digests: abc.Sequence[bytes], kv: KVCache, slot: int) -> None:
        """Store the first blocks of a slot that are not cached yet, as far as the budget allows."""
        known = self.known(digests)
        start, end = known * self.block, len(digests) * self.block
        size = (end - start) * sum(kind.nbytes for kind in kv.kinds)
        if start == end or size > self.budget:
            return
        self._touch(digests[:known])  # without these the new blocks could not be reached
        self.shrink(self.budget - size)
        if known and digests[known - 1] not in self._at:
            return
        try:
            run = Run(start, digests[known:], kv.cut(slot, start, end))
        except Exception as error:
            if not out_of_memory(error):
                raise
            self.shrink(0)  # running sequences need the memory more
            return
        self._runs[run] = None
        self._at |= dict.fromkeys(run.digests, run)
        self.nbytes += run.nbytes

    def _touch(self, digests: abc.Sequence[bytes]) -> list[Run]:
        """Return the runs that contain the blocks, in order, and mark them as recently used."""
        runs = list(dict.fromkeys(self._at[digest] for digest in digests))
        for run in reversed(runs):
            self._runs.move_to_end(run)
        return runs

    def shrink(self, budget: int) -> None:
        """Evict the least recently used runs until at most `budget` bytes are cached."""
        while self._runs and self.nbytes > budget:
            run, _ = self._runs.popitem(last=False)
            self.nbytes -= run.nbytes
            for digest in run.digests:
                if self._at.get(digest) is run:
                    del self._at[digest]


def chain(keys: abc.Sequence[bytes], size: int, before: abc.Sequence[bytes] = ()) -> list[bytes]:
    """Return the digests of the complete blocks of `size` positions, each over its block and everything before.

    `before` has the digests of the first blocks, if they are known.
    """
    digests = list(before)
    last = digests[-1] if digests else b""
    for at in range(len(digests) * size, len(keys) - size + 1, size):
        last = blake2b(last + b"".join(keys[at : at + size]), digest_size=DIGEST).digest()
        digests.append(last)
    return digests


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
    lookup: bool = True
    """Propose tokens from what was said before, see `lookup`."""

    @property
    def block(self) -> int:
        """Positions of a block of the prefix cache; if `exact`, the positions that one pass reads."""
        return ROUND if self.exact else 1


class CacheManager:
    """The keys and values of one engine: running sequences in slots, and cached prefixes."""

    def __init__(self, network: Network, limits: Limits) -> None:
        self.limits = limits
        self.kv = KVCache(network.kinds)
        self._first = ROOM if network.cuda_graphs else (0, 0)
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

    def room_for(self, request: Request, running: abc.Sequence[Request], used: list[int], waiting: int) -> bool:
        """Make the slots large enough for one more request; return False if the budget does not allow it.

        They grow for `waiting` more too, or to twice the running ones, so that few new ones move the others. `used` has
        the filled columns of the running ones.
        """
        kv, taken = self.kv, len(running)
        slots = self.limits.slots if self.limits.exact else taken + 1
        columns = whole_rounds(1 + max(each.longest for each in (request, *running)))
        if slots <= kv.slots and columns <= kv.columns:
            return True
        roomy = min(max(slots + waiting, 2 * taken), self.limits.slots)
        power = 1 << (columns - 1).bit_length()
        # 2 or 3 times a power of two, so that a growing conversation rarely moves its columns.
        wide = max(power * 3 // 4 if columns <= power * 3 // 4 else power, kv.columns if taken else 0)
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


def whole_rounds(columns: int) -> int:
    """Return the next multiple of ROUND."""
    return -(-columns // ROUND) * ROUND


_managers: weakref.WeakSet[CacheManager] = weakref.WeakSet()
"""All managers of the process: what they may still allocate is not free for a new one."""
_lock = threading.Lock()


def default_budget(kinds: abc.Sequence[Kind]) -> int:
    """Return the default budget for keys and values in bytes, limited by the fullest of a model's devices.

    Bytes that other engines on the same device may still allocate do not count as free.
    """
    found = list[int]()
    for device, share in shares_of(kinds).items():
        with _lock:
            promised = sum(manager.may_take(device) for manager in _managers)
        free = free_memory(device)
        left = max(free - promised, LEAST * free) * (ON_CPU if device.type == "cpu" else ON_ACCELERATOR)
        found.append(int(left / share))
    return min(found, default=UNKNOWN)


def shares_of(kinds: abc.Sequence[Kind]) -> dict[torch.device, float]:
    """Return the share of a position's keys and values on each device; the shares add up to 1."""
    total, shares = sum(kind.nbytes for kind in kinds), dict[torch.device, float]()
    for kind in kinds:
        shares[kind.device] = shares.get(kind.device, 0.0) + kind.nbytes / total
    return shares
