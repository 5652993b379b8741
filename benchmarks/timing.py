"""Time rivals in turn and compare them pair by pair: a busy machine slows both, their ratio stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

Run = Callable[[], object]
Clock = Literal["wall", "cpu"]
CLOCKS: Mapping[Clock, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


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

    def fastest(self, *names: str) -> str:
        """Of some rivals the one with the least middle time."""
        return min(names, key=self.median)


def interleaved(rivals: Mapping[str, Run], repeats: int, clock: Clock = "wall", *, warm: int = 1) -> Times:
    """Run all rivals `warm` times to warm up, then `repeats` times in turn, every other time in reverse."""
    now, names = CLOCKS[clock], list(rivals)
    for _ in range(warm):
        for run in rivals.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names if repeat % 2 == 0 else reversed(names):
            start = now()
            rivals[name]()
            seconds[name].append(now() - start)
    return Times(seconds)
