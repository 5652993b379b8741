"""What was read once is not read again: keys and values of prompts' beginnings, and of the replies after them.

A tree of blocks of equal length. A block is named by a digest over all that precedes it, so that a
dictionary holds the tree. Blocks that were kept at one time lie in one run. The least recently used
run goes first; a use touches a prompt's last run before its first, so no run outlives its beginning
by more than the runs that were used later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from sottovoce.models.memory import out_of_memory
from sottovoce.models.slots import Pages, Slots

BLOCK = 8  # positions; a shorter one costs more calls, a longer one loses more at a prompt's end


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive blocks of one row."""

    digests: tuple[bytes, ...]
    start: int
    """The first position."""
    pages: Pages

    @property
    def nbytes(self) -> int:
        """What its tensors take."""
        return sum(page.numel() * page.element_size() for page in self.pages)


class PrefixCache:
    """Runs within a budget of bytes."""

    def __init__(self, budget: int, block: int = BLOCK) -> None:
        """`block` is the number of positions of a block."""
        self.budget, self.block = budget, block
        self.nbytes = 0
        self._runs: OrderedDict[Run, None] = OrderedDict()
        self._at: dict[bytes, Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def known(self, digests: Sequence[bytes]) -> int:
        """How many of a prompt's first blocks are kept."""
        return next((i for i, digest in enumerate(digests) if digest not in self._at), len(digests))

    def restore(self, digests: Sequence[bytes], slots: Slots, row: int) -> int:
        """Copy the first blocks that are kept into a slot; returns how many positions that makes."""
        known = self.known(digests)
        runs = list(dict.fromkeys(self._at[digest] for digest in digests[:known]))
        for run in reversed(runs):
            self._runs.move_to_end(run)
        end = known * self.block
        for i, run in enumerate(runs):
            following = runs[i + 1].start if i + 1 < len(runs) else end
            slots.paste(row, run.start, run.pages, following - run.start)
        return end

    def store(self, digests: Sequence[bytes], slots: Slots, row: int) -> None:
        """Keep those of a slot's blocks that are not kept yet, as far as the budget allows."""
        known = self.known(digests)
        new = tuple(digests[known:])
        size = len(new) * self.block * sum(kind.nbytes for kind in slots.kinds)
        if not new or size > self.budget:
            return
        self.shrink(self.budget - size)
        start = known * self.block
        try:
            run = Run(new, start, slots.cut(row, start, len(digests) * self.block))
        except Exception as error:
            if not out_of_memory(error):
                raise
            self.shrink(0)  # keeping is a favour: what runs needs the memory more
            return
        self._runs[run] = None
        self._at |= dict.fromkeys(new, run)
        self.nbytes += run.nbytes

    def shrink(self, budget: int) -> None:
        """Let go of the least recently used until no more than `budget` bytes are kept."""
        while self._runs and self.nbytes > budget:
            run, _ = self._runs.popitem(last=False)
            self.nbytes -= run.nbytes
            for digest in run.digests:
                if self._at.get(digest) is run:
                    del self._at[digest]
