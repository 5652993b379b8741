"""What was read once is not read again: keys and values of prompts' beginnings, and of the replies after them.

A block of positions is named by a digest over all that precedes it, so that a dictionary of digests
is a tree of beginnings. Blocks that were kept at one time lie in one run. The least recently used run
goes first; a use touches a prompt's last run before its first, so that the beginnings of what is in
use stay longest.

A position is its token id, or the digest of its embedding row, with the digests of the edits that
act on it. Contents are digested, not names: no two different prompts can pass for one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import torch

from sottovoce.models.engine.kv_cache import KVCache
from sottovoce.models.engine.memory import out_of_memory
from sottovoce.models.engine.request import Ids, Request
from sottovoce.models.huggingface.passes import Pages

DIGEST = 16  # bytes


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive blocks of one sequence, kept at one time."""

    start: int
    """The first position."""
    digests: Sequence[bytes]
    pages: Pages

    @property
    def nbytes(self) -> int:
        """What its tensors take."""
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
    """Where a block lies."""

    def __len__(self) -> int:
        return len(self._runs)

    def known(self, digests: Sequence[bytes]) -> int:
        """How many of a prompt's first blocks are kept."""
        return next((i for i, digest in enumerate(digests) if digest not in self._at), len(digests))

    def restore(self, digests: Sequence[bytes], kv: KVCache, slot: int) -> int:
        """Copy what is kept of a prompt's beginning into a slot; returns how many positions that makes."""
        known = self.known(digests)
        runs, end = self._touch(digests[:known]), known * self.block
        for run, following in zip(runs, [*(run.start for run in runs[1:]), end], strict=False):
            kv.paste(slot, run.start, run.pages, following - run.start)
        return end

    def store(self, digests: Sequence[bytes], kv: KVCache, slot: int) -> None:
        """Keep those of a slot's first blocks that are not kept yet, as far as the budget allows."""
        known = self.known(digests)
        start, end = known * self.block, len(digests) * self.block
        size = (end - start) * sum(kind.nbytes for kind in kv.kinds)
        if start == end or size > self.budget:
            return
        self._touch(digests[:known])  # without them what is kept now could not be reached
        self.shrink(self.budget - size)
        if known and digests[known - 1] not in self._at:
            return
        try:
            run = Run(start, digests[known:], kv.cut(slot, start, end))
        except Exception as error:
            if not out_of_memory(error):
                raise
            self.shrink(0)  # keeping is a favour: what runs needs the memory more
            return
        self._runs[run] = None
        self._at |= dict.fromkeys(run.digests, run)
        self.nbytes += run.nbytes

    def _touch(self, digests: Sequence[bytes]) -> list[Run]:
        """The runs in which blocks lie, in their order; now they were used."""
        runs = list(dict.fromkeys(self._at[digest] for digest in digests))
        for run in reversed(runs):
            self._runs.move_to_end(run)
        return runs

    def shrink(self, budget: int) -> None:
        """Let go of the least recently used until no more than `budget` bytes are kept."""
        while self._runs and self.nbytes > budget:
            run, _ = self._runs.popitem(last=False)
            self.nbytes -= run.nbytes
            for digest in run.digests:
                if self._at.get(digest) is run:
                    del self._at[digest]


def position_keys(request: Request, dtype: torch.dtype) -> list[bytes]:
    """One key for each position of the prompt; rows count as they enter a model that computes in `dtype`."""
    keys: list[bytes] = []
    for piece in request.prompt:
        keys += id_keys(piece.ids) if isinstance(piece, Ids) else row_keys(piece.rows.to(dtype))
    for edit in request.edits:
        layer = edit.layer.to_bytes(2, "big")
        for at, digest in enumerate(row_digests(edit.delta), edit.at):
            keys[at] += b"e" + layer + digest
    return keys


def id_keys(ids: Sequence[int]) -> list[bytes]:
    """Keys of positions that were read as token ids."""
    return [b"i" + id.to_bytes(4, "big") for id in ids]


def row_keys(rows: torch.Tensor) -> list[bytes]:
    """Keys of positions that were read as embedding rows (n, E)."""
    return [b"r" + digest for digest in row_digests(rows)]


def row_digests(rows: torch.Tensor) -> list[bytes]:
    """128 bits of each row (n, w)."""
    words = rows.detach().cpu().contiguous().view(torch.int16).numpy()  # numpy has no bfloat16
    return [blake2b(row.tobytes(), digest_size=DIGEST).digest() for row in words]


def chain(keys: Sequence[bytes], size: int, before: Sequence[bytes] = ()) -> list[bytes]:
    """Digests of the whole blocks of `size` positions, each over all that precedes it.

    `before` are the digests of the first blocks, where they are known.
    """
    digests = list(before)
    last = digests[-1] if digests else b""
    for at in range(len(digests) * size, len(keys) - size + 1, size):
        last = blake2b(last + b"".join(keys[at : at + size]), digest_size=DIGEST).digest()
        digests.append(last)
    return digests
