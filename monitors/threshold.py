"""Thresholds on failure scores, and what resetting at them is worth.

One reset, and a game that was reset succeeds as often as games do (share q): new success is q + gain with
gain = q(1 - q)(TPR - FPR), TPR the part of failed games that trigger, FPR that of successful ones. With counts, a of F
failed and b of S successful among n games: (a S - b F) / n^2, which is compared in whole numbers, without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import UsageError
from sottovoce.monitors.rows import Floats

STEPS = 100
"""Thresholds are 0, 1/100, ..., 1."""
TAUS: Floats = np.arange(STEPS + 1) / STEPS


@dataclass(frozen=True)
class Triggered:
    """How many games triggered."""

    failed: int
    successful: int
    of_failed: int
    of_successful: int

    @property
    def surplus(self) -> int:
        """The gain, times the square of the number of games."""
        return self.failed * self.of_successful - self.successful * self.of_failed

    @property
    def gain(self) -> float:
        """What one reset adds to the share of successes."""
        return self.surplus / (self.of_failed + self.of_successful) ** 2


def triggered(highest: Floats, failed: NDArray[np.bool_], threshold: float) -> Triggered:
    """What triggers above a threshold, given the highest score of each game."""
    above = highest > threshold
    return Triggered(int((above & failed).sum()), int((above & ~failed).sum()), int(failed.sum()), int((~failed).sum()))


def best_threshold(highest: Floats, failed: NDArray[np.bool_]) -> tuple[float, Triggered]:
    """The threshold of the largest gain, of several the largest, and what triggers there."""
    found = [(float(tau), triggered(highest, failed, float(tau))) for tau in TAUS]
    return max(found, key=lambda each: (each[1].surplus, each[0]))


def conformal_threshold(highest: Floats, false_alarms: float) -> float:
    """A threshold that at most this part of successful games exceed, given the highest scores of m such games.

    The ceil((1 - alpha)(m + 1))-th smallest of them: split conformal prediction, whose promise holds for games like
    these, which must have had no part in fitting or choosing the monitor.

    Raises:
        UsageError: too few games for so low a rate.
    """
    m = len(highest)
    rank = ceil((1 - false_alarms) * (m + 1) - 1e-9)  # .9 * 20 is 18, not a little more
    if rank > m:
        need = ceil(1 / false_alarms - 1 - 1e-9)
        raise UsageError(f"{m} successful games cannot hold false alarms to {false_alarms}; expected {need} at least")
    found = float(np.sort(highest)[rank - 1])
    return found if np.isfinite(found) else 0.0  # so many games have no score at all that any threshold holds
