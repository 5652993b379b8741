"""What a section is given, rivals that run in turn, and tables: a busy machine slows both rivals, their ratio stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from sottovoce.models import LoadedModel

Run = Callable[[], object]
Clock = Literal["wall", "cpu"]
CLOCKS: Mapping[Clock, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Asked:
    """The model that is measured, and how."""

    loaded: LoadedModel
    repeats: int = 7
    clock: Clock = "wall"
    threads: int = 1
    """torch's, for rivals and engine alike; a section that compares numbers of threads says so."""
    batches: tuple[int, ...] = ()
    """Sizes of batches for `decoding`; none are its own."""
    tiny: bool = False
    """Small sizes: to see that a section runs, not to learn anything."""

    def some(self, *sizes: int) -> tuple[int, ...]:
        """The sizes that a section goes through."""
        return sizes[:2] if self.tiny else sizes

    def most(self, size: int, least: int = 6) -> int:
        """A size that the tiny form cuts."""
        return min(size, least) if self.tiny else size


@dataclass(frozen=True)
class Times:
    """Seconds of each rival, one number a repeat, in the order of the repeats."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """The middle time of a rival."""
        return median(self.seconds[name])

    def speed(self, name: str, against: str) -> float:
        """How many times as fast as `against` a rival is: the middle of the ratios within each repeat."""
        return median(other / own for own, other in zip(self.seconds[name], self.seconds[against], strict=True))

    def beyond(self, first: str) -> Times:
        """What each rival took beyond the run whose name has `first` at its end, which is its beginning alone."""
        begins = {name: self.seconds[name + first] for name in self.seconds if name + first in self.seconds}
        return Times(
            {
                name: [whole - begin for whole, begin in zip(self.seconds[name], each, strict=True)]
                for name, each in begins.items()
            }
        )


def interleaved(rivals: Mapping[str, Run], repeats: int, clock: Clock = "wall", *, warm: int = 1) -> Times:
    """Run all rivals `warm` times to warm up, then `repeats` times in turn, every other time in reverse."""
    now, names = CLOCKS[clock], list(rivals)
    for name in names * warm:
        rivals[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names if repeat % 2 == 0 else reversed(names):
            start = now()
            rivals[name]()
            seconds[name].append(now() - start)
    return Times(seconds)


@dataclass
class Table:
    """A table that grows row by row, in Markdown; the first row is its head."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Another row; what it lacks at its end stays empty."""
        self.rows.append(tuple(map(str, cells)))

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        head, *rest = [[*row, *[""] * (width - len(row))] for row in self.rows]
        lines = [head, ["---", *["---:"] * (width - 1)], *rest]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


times, percent = "{:.2f}x".format, "{:.1%}".format
"""How many times as fast, and a share of the whole, as a table shows them."""
