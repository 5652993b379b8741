"""Thresholds on failure scores, and the gain from resetting games at them.

A game is reset at most once and then succeeds as often as games do (share q). The new share of successes is q + gain
with gain = q(1 - q)(TPR - FPR), where TPR is the share of failed games that trigger and FPR that of successful ones.
If a of F failed and b of S successful games trigger among n games, the gain is (a S - b F) / n^2; gains are compared
as whole numbers, without rounding.

The random baseline (arXiv 2502.05986) draws a uniform number at each turn and triggers when it is above its threshold
tau, that is in a share 1 - tau of the turns. A game of n turns triggers with probability 1 - tau^n. The expected gain
is computed from that, without drawing.
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
HALVINGS = 60  # an interval of length 1 is then smaller than rounding errors


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
    counts = [(float(tau), triggered(highest, failed, float(tau))) for tau in TAUS]
    return max(counts, key=lambda pair: (pair[1].surplus, pair[0]))


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
    threshold = float(np.sort(highest)[rank - 1])
    return threshold if np.isfinite(threshold) else 0.0  # most games have no score, so any threshold meets the rate


def chances(turns: NDArray[np.intp], threshold: float) -> Floats:
    """Return for each game the probability that it triggers at least once; `turns` are the games' lengths."""
    probabilities: Floats = 1.0 - np.power(threshold, turns, dtype=np.float64)
    return probabilities


def game_gains(failed: NDArray[np.bool_]) -> Floats:
    """Return how much each game adds to the gain if it triggers; its dot product with the triggers is the gain."""
    n, failures = len(failed), int(failed.sum())
    gains: Floats = np.where(failed, n - failures, -failures) / n**2
    return gains


def best_chance(turns: NDArray[np.intp], failed: NDArray[np.bool_]) -> float:
    """Return the threshold with the largest expected gain; ties go to the largest threshold."""
    gains = [float(game_gains(failed) @ chances(turns, float(tau))) for tau in TAUS]
    return float(max(zip(np.round(gains, 12), TAUS, strict=True))[1])


def equal_resets(turns: NDArray[np.intp], resets: float) -> float:
    """Return the threshold at which `resets` games trigger in expectation; 0 triggers every game that has a turn."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chances(turns, middle).sum() > resets else (low, middle)
    return high
