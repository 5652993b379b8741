"""What a section of the benchmarks is given."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.timing import Clock
from sottovoce.models import LoadedModel


@dataclass(frozen=True)
class Asked:
    """The model that is measured, and how."""

    loaded: LoadedModel
    repeats: int = 7
    clock: Clock = "wall"
    threads: int = 1
    """torch's, for rivals and engine alike; a section that compares numbers of threads says so."""
    tiny: bool = False
    """Small sizes: to see that a section runs, not to learn anything."""

    def some(self, *sizes: int) -> tuple[int, ...]:
        """The sizes that a section goes through."""
        return sizes[:2] if self.tiny else sizes

    def most(self, size: int, least: int = 6) -> int:
        """A size that the tiny form cuts."""
        return min(size, least) if self.tiny else size
