"""A cache of what was read before: keys and values of the beginnings of prompts, and of the replies after them.

The name of a block of positions is a digest over the block and all that precedes it, so that a dictionary of digests
is a tree of beginnings. Blocks that were stored together form a run. The least recently used run is evicted first;
a use touches a prompt's last run before its first, so that the beginnings of prompts in use stay longest.

The key of a position is its token id, or the digest of its embedding row, with the digests of the edits that act
on it. Keys depend on contents, not names: two different prompts never match.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import torch

from sottovoce.models.engine.kv_cache import KVCache
from sottovoce.models.engine.request import Cached, Ids, Request
from sottovoce.models.huggingface.devices import out_of_memory
from sottovoce.models.huggingface.passes import Pages

DIGEST = 16  # bytes


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive blocks of one sequence that were stored together."""

    start: int
    """The first position."""
    digests: Sequence[bytes]
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

    def __len__(self) -> int:
        return len(self._runs)

    def known(self, digests: Sequence[bytes]) -> int:
        """Return how many of a prompt's first blocks are cached."""
        return next((i for i, digest in enumerate(digests) if digest not in self._at), len(digests))

    def restore(self, digests: Sequence[bytes], kv: KVCache, slot: int) -> int:
        """Copy the cached beginning of a prompt to a slot; return its number of positions."""
        known = self.known(digests)
        runs, end = self._touch(digests[:known]), known * self.block
        for run, following in zip(runs, [*(run.start for run in runs[1:]), end], strict=False):
            kv.paste(slot, run.start, run.pages, following - run.start)
        return end

    def store(self, digests: Sequence[bytes], kv: KVCache, slot: int) -> None:
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

    def _touch(self, digests: Sequence[bytes]) -> list[Run]:
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


def position_keys(request: Request, dtype: torch.dtype) -> list[bytes]:
    """Return one key for each position of the prompt; rows count as cast to `dtype`, in which the model computes."""
    keys: list[bytes] = []
    for piece in request.prompt:
        if isinstance(piece, Cached):
            keys += [b"k" + piece.digest + i.to_bytes(4, "big") for i in range(len(piece))]
        else:
            keys += id_keys(piece.ids) if isinstance(piece, Ids) else row_keys(piece.rows.to(dtype))
    for edit in request.edits:
        what = (b"e" if edit.how == "add" else edit.how.encode()) + edit.layer.to_bytes(2, "big")
        for at, digest in enumerate(row_digests(edit.delta), edit.at):
            keys[at] += what + digest
    return keys


def id_keys(ids: Sequence[int]) -> list[bytes]:
    """Return the keys of positions that were read as token ids."""
    return [b"i" + id.to_bytes(4, "big") for id in ids]


def row_keys(rows: torch.Tensor) -> list[bytes]:
    """Return the keys of positions that were read as embedding rows (n, E)."""
    return [b"r" + digest for digest in row_digests(rows)]


def row_digests(rows: torch.Tensor) -> list[bytes]:
    """Return a digest of 128 bits for each row (n, w)."""
    words = rows.detach().cpu().contiguous().view(torch.int16).numpy()  # numpy has no bfloat16
    return [blake2b(row.tobytes(), digest_size=DIGEST).digest() for row in words]


def chain(keys: Sequence[bytes], size: int, before: Sequence[bytes] = ()) -> list[bytes]:
    """Return the digests of the whole blocks of `size` positions, each over the block and all that precedes it.

    `before` has the digests of the first blocks, if they are known.
    """
    digests = list(before)
    last = digests[-1] if digests else b""
    for at in range(len(digests) * size, len(keys) - size + 1, size):
        last = blake2b(last + b"".join(keys[at : at + size]), digest_size=DIGEST).digest()
        digests.append(last)
    return digests
