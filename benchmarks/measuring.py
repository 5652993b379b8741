"""Options, rivals that run in turn, and tables: a busy machine slows all rivals, and their ratios stay the same."""

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
class Options:
    """The model to measure, and the options."""

    loaded: LoadedModel
    repeats: int = 7
    clock: Clock = "wall"
    threads: int = 1
    """Torch threads of rivals and engine; a section that compares numbers of threads says so."""
    batches: tuple[int, ...] = ()
    """Batch sizes for `decoding`; empty for its defaults."""
    tiny: bool = False
    """Whether to use small sizes, only to check that a section runs."""

    def some(self, *sizes: int) -> tuple[int, ...]:
        """Return the sizes that a section measures."""
        return sizes[:2] if self.tiny else sizes

    def most(self, size: int, least: int = 6) -> int:
        """Return a size, reduced if `tiny`."""
        return min(size, least) if self.tiny else size


@dataclass(frozen=True)
class Times:
    """Seconds of each rival, one number per repeat, in order."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """Return the median time of a rival."""
        return median(self.seconds[name])

    def speed(self, name: str, against: str) -> float:
        """Return how many times as fast as `against` a rival is: the median of the ratios within each repeat."""
        return median(other / own for own, other in zip(self.seconds[name], self.seconds[against], strict=True))

    def beyond(self, first: str) -> Times:
        """Return each rival's times minus those of the run with the suffix `first`, which covers only its beginning."""
        begins = {name: self.seconds[name + first] for name in self.seconds if name + first in self.seconds}
        return Times(
            {
                name: [whole - begin for whole, begin in zip(self.seconds[name], each, strict=True)]
                for name, each in begins.items()
            }
        )


def interleaved(rivals: Mapping[str, Run], repeats: int, clock: Clock = "wall", *, warm: int = 1) -> Times:
    """Run all rivals `warm` times untimed, then `repeats` times in turn, every other time in reverse order."""
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
    """A Markdown table, built row by row; the first row is its head."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row; missing cells at its end stay empty."""
        self.rows.append(tuple(map(str, cells)))

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        head, *rest = [[*row, *[""] * (width - len(row))] for row in self.rows]
        lines = [head, ["---", *["---:"] * (width - 1)], *rest]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


times, percent = "{:.2f}x".format, "{:.1%}".format
"""Formats of a speed ratio and of a share in tables."""
