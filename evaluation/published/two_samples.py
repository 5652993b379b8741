"""The difference of two independent shares by Newcombe's interval, and which one it would have shown.

Needs the extra `eval`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.evaluation.statistics import ALPHA

POWER = 0.8
STEPS = 10  # of a bisection: a thousandth of where it looks


@dataclass(frozen=True)
class TwoSamples:
    """A difference with its 95 % interval."""

    value: float
    low: float
    high: float
    smallest: float | None
    """The smallest true difference that would have shown in four of five cases; None where none would."""

    @property
    def differs(self) -> bool:
        """Return whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def two_samples(value: float, n: float, other: float, other_n: float) -> TwoSamples:
    """Return how far the share `value` of `n` observations is from the independent share `other` of `other_n`.

    The smallest difference is one of a true share from `other`, towards one half, where shares vary most.
    """
    low, high = _newcombe(np.float64(value), n, np.float64(other), other_n)
    return TwoSamples(
        value - other, float(low), float(high), _smallest(max(1, round(n)), other, max(1, round(other_n)))
    )


@cache
def _smallest(n: int, other: float, other_n: int) -> float | None:
    from scipy.stats import binom  # late: takes its time

    ours, theirs = np.arange(n + 1), np.arange(other_n + 1)
    low, high = _newcombe(ours[:, None] / n, n, theirs[None, :] / other_n, other_n)
    sign, most = (1, 1 - other) if other <= 0.5 else (-1, other)
    shows = (low > 0 if sign > 0 else high < 0) @ binom.pmf(theirs, other_n, other)

    def power(difference: float) -> float:
        return float(binom.pmf(ours, n, other + sign * difference) @ shows)

    if power(most) < POWER:
        return None
    below, above = 0.0, most
    for _ in range(STEPS):
        middle = (below + above) / 2
        below, above = (below, middle) if power(middle) >= POWER else (middle, above)
    return above


def _newcombe(value: Any, n: float, other: Any, other_n: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The limits of `value - other`, numbers or arrays of any shape, from Wilson's of each (1998, method 10)."""
    limits: Any = import_module("statsmodels.stats.proportion").proportion_confint  # late; it is not typed
    low, high = limits(value * n, n, ALPHA, method="wilson")
    other_low, other_high = limits(other * other_n, other_n, ALPHA, method="wilson")
    by = value - other
    return by - np.hypot(value - low, other_high - other), by + np.hypot(high - value, other - other_low)
