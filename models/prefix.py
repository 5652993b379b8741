"""What was read once is not read again: keys and values of prompts' beginnings, and of the replies after them.

A tree of blocks of equal length. A block is named by a digest over all that precedes it, so that a
dictionary holds the tree; where a prompt leaves it, its last positions are compared with the blocks
that follow there one by one. Blocks that were kept at one time lie in one run. The least recently
used run goes first; a use touches a prompt's last run before its first, so that the beginnings of
what is in use stay longest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from sottovoce.models.keys import chain, common
from sottovoce.models.memory import out_of_memory
from sottovoce.models.slots import Pages, Slots

BLOCK = 8  # positions: fewer mean more digests, more mean more comparisons at a prompt's end
COMPARED = 16  # blocks of those that follow one another in the tree: the last ones kept
ROOT = b""


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive positions of one row, kept at one time; the last block may be a part of one."""

    start: int
    """The first position."""
    parent: bytes
    """The block before."""
    digests: tuple[bytes, ...]
    keys: tuple[tuple[bytes, ...], ...]
    """Of the positions of each block."""
    pages: Pages

    @property
    def nbytes(self) -> int:
        """What its tensors take."""
        return sum(page.numel() * page.element_size() for page in self.pages)

    @property
    def parents(self) -> tuple[bytes, ...]:
        """The block before each block."""
        return (self.parent, *self.digests[:-1])


@dataclass
class PrefixCache:
    """Runs within a budget of bytes."""

    budget: int
    block: int = BLOCK
    """Positions of a block."""
    whole: bool = False
    """Reuse whole blocks alone: parts of them would be computed in other chunks than afresh."""
    nbytes: int = 0
    _runs: OrderedDict[Run, None] = field(default_factory=OrderedDict)
    _at: dict[bytes, Run] = field(default_factory=dict)
    """Where a block lies."""
    _next: dict[bytes, dict[bytes, Run]] = field(default_factory=dict)
    """The blocks that follow one, and where they lie."""

    def __len__(self) -> int:
        return len(self._runs)

    def known(self, digests: Sequence[bytes]) -> int:
        """How many of a prompt's first blocks are kept."""
        return next((i for i, digest in enumerate(digests) if digest not in self._at), len(digests))

    def restore(self, digests: Sequence[bytes], keys: Sequence[bytes], slots: Slots, row: int) -> int:
        """Copy what is kept of a prompt's beginning into a slot; returns how many positions that makes.

        `digests` and `keys` are those of the positions that may be taken.
        """
        known = self.known(digests)
        end = known * self.block
        runs = list(dict.fromkeys(self._at[digest] for digest in digests[:known]))
        after, more = self._part(digests[known - 1] if known else ROOT, keys[end : end + self.block])
        for run in reversed([*runs, *([after] if after else [])]):
            self._runs.move_to_end(run)
        for i, run in enumerate(runs):
            following = runs[i + 1].start if i + 1 < len(runs) else end
            slots.paste(row, run.start, 0, run.pages, following - run.start)
        if after:
            slots.paste(row, end, end - after.start, after.pages, more)
        return end + more

    def _part(self, parent: bytes, keys: Sequence[bytes]) -> tuple[Run | None, int]:
        """The run with the block after `parent` that has most of `keys` at its beginning, and how many."""
        best: tuple[Run | None, int] = (None, 0)
        if self.whole:
            return best
        for digest, run in list(self._next.get(parent, {}).items())[-COMPARED:]:
            kept = run.keys[run.digests.index(digest)]
            same = common(kept, keys)
            if same > best[1]:
                best = (run, same)
        return best

    def store(self, digests: Sequence[bytes], keys: Sequence[bytes], slots: Slots, row: int) -> None:
        """Keep those of a slot's positions that are not kept yet, as far as the budget allows.

        `keys` are those of the positions that were read, `digests` those of their first blocks.
        """
        known = self.known(digests)
        start, end = known * self.block, len(keys) // self.block * self.block if self.whole else len(keys)
        size = (end - start) * sum(kind.nbytes for kind in slots.kinds)
        if start >= end or size > self.budget:
            return
        named = self._named(keys, digests[:known], end)
        if all(digest in self._at for digest in named):
            return
        for run in dict.fromkeys(self._at[digest] for digest in reversed(digests[:known])):
            self._runs.move_to_end(run)  # without them what is kept now could not be reached
        self.shrink(self.budget - size)
        if known and digests[known - 1] not in self._at:
            return
        try:
            pages = slots.cut(row, start, end)
        except Exception as error:
            if not out_of_memory(error):
                raise
            self.shrink(0)  # keeping is a favour: what runs needs the memory more
            return
        blocks = tuple(tuple(keys[at : at + self.block]) for at in range(start, end, self.block))
        self._add(Run(start, digests[known - 1] if known else ROOT, named, blocks, pages))

    def _named(self, keys: Sequence[bytes], known: Sequence[bytes], end: int) -> tuple[bytes, ...]:
        """Digests of the blocks that are not known, the last of which may be a part of one."""
        digests = chain(keys[:end], self.block, known)
        left = keys[len(digests) * self.block : end]
        part = chain(left, len(left), (), digests[-1] if digests else ROOT) if left else []
        return (*digests[len(known) :], *part)

    def _add(self, run: Run) -> None:
        self._runs[run] = None
        self.nbytes += run.nbytes
        for parent, digest in zip(run.parents, run.digests, strict=True):
            self._at[digest] = run
            self._next.setdefault(parent, {})[digest] = run

    def shrink(self, budget: int) -> None:
        """Let go of the least recently used until no more than `budget` bytes are kept."""
        while self._runs and self.nbytes > budget:
            run, _ = self._runs.popitem(last=False)
            self.nbytes -= run.nbytes
            for parent, digest in zip(run.parents, run.digests, strict=True):
                if self._at.get(digest) is run:
                    del self._at[digest], self._next[parent][digest]
                    if not self._next[parent]:
                        del self._next[parent]
