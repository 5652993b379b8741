"""The baseline of a monitor: a trigger that throws dice, a uniform number at each turn against a threshold.

A game of n turns triggers with probability 1 - tau^n: expectations are computed, and nothing is thrown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.monitors.rows import Floats
from sottovoce.monitors.threshold import TAUS

HALVINGS = 60  # of an interval of 1: below rounding


def chances(turns: NDArray[np.intp], threshold: float) -> Floats:
    """How likely each game triggers at least once."""
    found: Floats = 1.0 - np.power(threshold, turns, dtype=np.float64)
    return found


def worth(failed: NDArray[np.bool_]) -> Floats:
    """What triggering each game adds to the gain: the gain is their sum, times the trigger of each."""
    n, lost = len(failed), int(failed.sum())
    found: Floats = np.where(failed, n - lost, -lost) / n**2
    return found


def best_chance(turns: NDArray[np.intp], failed: NDArray[np.bool_]) -> float:
    """The threshold of the largest expected gain, of several the largest."""
    gains = [float(worth(failed) @ chances(turns, float(tau))) for tau in TAUS]
    return float(max(zip(np.round(gains, 12), TAUS, strict=True))[1])


def equal_resets(turns: NDArray[np.intp], resets: float) -> float:
    """The threshold at which so many games trigger, in expectation; 0 triggers every game that has a turn."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chances(turns, middle).sum() > resets else (low, middle)
    return high
