"""Thresholds on failure scores, and the gain from resetting games at them.

A game is reset at most once and then succeeds as often as games do (share q). The new share of successes is q + gain
with gain = q(1 - q)(TPR - FPR), where TPR is the share of failed games that trigger and FPR that of successful ones.
If a of F failed and b of S successful games trigger among n games, the gain is (a S - b F) / n^2; gains are compared
as whole numbers, without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import UsageError
from sottovoce.monitors.dataset import Floats

STEPS = 100
"""Thresholds are 0, 1/100, ..., 1."""
TAUS: Floats = np.arange(STEPS + 1) / STEPS


@dataclass(frozen=True)
class Triggered:
    """Number of games that triggered, among failed and successful ones."""

    failed: int
    successful: int
    of_failed: int
    of_successful: int

    @property
    def surplus(self) -> int:
        """Gain, times the square of the number of games."""
        return self.failed * self.of_successful - self.successful * self.of_failed

    @property
    def gain(self) -> float:
        """Increase in the share of successes due to one reset."""
        return self.surplus / (self.of_failed + self.of_successful) ** 2


def triggered(highest: Floats, failed: NDArray[np.bool_], threshold: float) -> Triggered:
    """Count the games that trigger above a threshold, given the highest score of each game."""
    above = highest > threshold
    return Triggered(int((above & failed).sum()), int((above & ~failed).sum()), int(failed.sum()), int((~failed).sum()))


def best_threshold(highest: Floats, failed: NDArray[np.bool_]) -> tuple[float, Triggered]:
    """Return the threshold with the largest gain and its counts; ties go to the largest threshold."""
    found = [(float(tau), triggered(highest, failed, float(tau))) for tau in TAUS]
    return max(found, key=lambda each: (each[1].surplus, each[0]))


def conformal_threshold(highest: Floats, false_alarms: float) -> float:
    """Return a threshold that at most this share of successful games exceeds, given the highest scores of m such games.

    It is the ceil((1 - alpha)(m + 1))-th smallest score (split conformal prediction). The guarantee holds for games
    like these, provided that these games were not used to fit or choose the monitor.

    Raises:
        UsageError: too few games for so low a rate.
    """
    m = len(highest)
    rank = ceil((1 - false_alarms) * (m + 1) - 1e-9)  # .9 * 20 is 18, not a little more
    if rank > m:
        need = ceil(1 / false_alarms - 1 - 1e-9)
        raise UsageError(f"{m} successful games cannot limit false alarms to {false_alarms}; expected at least {need}")
    found = float(np.sort(highest)[rank - 1])
    return found if np.isfinite(found) else 0.0  # most games have no score, so any threshold meets the rate
