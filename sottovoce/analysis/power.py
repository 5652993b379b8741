"""The smallest true difference that the test in use would detect in four of five comparisons.

Paired runs: the share of questions that differ is the observed one; for a true difference above it, all questions
that differ do so in one direction. For right or wrong answers the power of McNemar's exact test is computed exactly;
for clusters and scores in between it is simulated with the bootstrap that tests them. Independent samples (a
published figure and ours) are compared by Newcombe's interval (1998, method 10), whose power is computed exactly.
All random numbers have a fixed seed. Needs the extra `eval`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sottovoce.analysis.statistics import (
    ALPHA,
    Clusters,
    Floats,
    by_cluster,
    scipy_stats,
    studentised,
    wilson,
)

POWER = 0.8
STEPS = 8  # of a bisection: a precision of 1/256 of the interval
NEARLY = 6  # standard errors; the smallest difference mostly lies below, so this range is searched first
RUNS = 100
"""Number of simulated comparisons of clusters; the power has a standard error of 4 points."""


@dataclass(frozen=True)
class TwoSamples:
    """The difference of two independent shares, with its 95 % interval (Newcombe)."""

    value: float
    low: float
    high: float
    smallest: float | None
    """Smallest true difference detected in four of five cases; None if not even the largest would be."""

    @property
    def differs(self) -> bool:
        """Return whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def mcnemar_power(n: int, differing: float, difference: float, alpha: float = ALPHA) -> float:
    """Return how often McNemar's exact test of `n` pairs detects a true `difference`, in the right direction.

    `differing` is the share of pairs that differ; a value below the difference is raised to it.
    """
    binom = scipy_stats().binom
    differing = min(1.0, max(differing, difference))
    counts = np.arange(n + 1)
    needed = binom.isf(alpha / 2, counts, 0.5) + 1  # the fewest gains among `counts` differing pairs with p <= alpha
    gained = (1 + difference / differing) / 2 if differing else 0.5
    return float(binom.pmf(counts, n, differing) @ binom.sf(needed - 1, counts, gained))


def smallest_of_pairs(n: int, differing: float, alpha: float = ALPHA) -> float | None:
    """Return the smallest difference that McNemar's test of `n` pairs detects in four of five cases.

    None if it detects none: the p of 5 pairs is 0.0625 at best.
    """
    return _smallest(lambda difference: mcnemar_power(n, differing, difference, alpha))


def smallest_of_clusters(differences: Sequence[float], clusters: Clusters, alpha: float = ALPHA) -> float | None:
    """Return the same for the bootstrap of clustered differences, by simulation; None if it detects none."""
    sums, sizes = by_cluster(differences, clusters)
    resamples = max(399, int(np.ceil(2 / alpha)))  # fewer could not reach alpha

    def power(difference: float) -> float:
        rng, missed = np.random.default_rng(0), 0
        for run in range(RUNS):
            drawn = rng.integers(len(sums), size=len(sums))
            result = studentised(_moved(sums, sizes, difference, rng)[drawn], sizes[drawn], resamples, run)
            missed += not (result.p <= alpha and result.value > 0)
            if missed > (1 - POWER) * RUNS + 1e-9:  # the rest would not change the answer
                return 0.0
        return 1 - missed / RUNS

    about = NEARLY * studentised(sums, sizes, resamples, 0).error
    return (_smallest(power, about) if about else None) or _smallest(power)


def two_samples(value: float, n: float, reference: float, reference_n: float) -> TwoSamples:
    """Return the difference of the share `value` of `n` observations from `reference`, a share of `reference_n` others.

    For a published figure `reference_n` is the number of the paper's questions; for clustered observations `n` is their
    effective number . The smallest difference is that of a true share from `reference`, towards
    or past one half, where shares vary most.
    """
    low, high = (float(limit) for limit in _newcombe(value, n, reference, reference_n))
    return TwoSamples(
        value - reference, low, high, _smallest_share(max(1, round(n)), reference, max(1, round(reference_n)))
    )


@cache
def _smallest_share(n: int, reference: float, reference_n: int) -> float | None:
    """Return the smallest detected difference of a share of `n` from `reference` of `reference_n`, computed exactly."""
    binom = scipy_stats().binom
    ours, theirs = np.arange(n + 1), np.arange(reference_n + 1)
    low, high = _newcombe(ours[:, None] / n, n, theirs[None, :] / reference_n, reference_n)
    sign = 1 if reference <= 0.5 else -1
    shows = (low > 0 if sign > 0 else high < 0) @ binom.pmf(theirs, reference_n, reference)

    def power(difference: float) -> float:
        return float(binom.pmf(ours, n, reference + sign * difference) @ shows)

    return _smallest(power, most=max(reference, 1 - reference))


def _smallest(power: Callable[[float], float], most: float = 1.0) -> float | None:
    if most > 1 or power(most) < POWER:
        return None
    low, high = 0.0, most
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def _moved(totals: Floats, sizes: Floats, difference: float, rng: np.random.Generator) -> Floats:
    """Return the sums of the clusters, moved to the true mean `difference` with their variance unchanged.

    A `difference` above the mean of their absolute values makes all sums positive and some of them maximal.
    """
    mean = float(abs(totals).sum() / sizes.sum())
    if difference <= mean:
        moved: Floats = totals + sizes * (difference - totals.sum() / sizes.sum())
        return moved
    return np.where(rng.random(len(sizes)) < (difference - mean) / (1 - mean), sizes, abs(totals))


def _newcombe(value: float | Floats, n: float, reference: float | Floats, reference_n: float) -> tuple[Floats, Floats]:
    """Return the limits of `value - reference` from the limits of each."""
    low, high = wilson(value, n)
    reference_low, reference_high = wilson(reference, reference_n)
    by = np.asarray(value) - np.asarray(reference)
    return (
        by - np.hypot(value - low, reference_high - reference),
        by + np.hypot(high - value, reference - reference_low),
    )
