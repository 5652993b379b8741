"""Shares, differences and tests over questions, each discussed once or several times.

Discussions of one question under several seeds form a cluster: they are correlated and carry less information than
as many questions would. Cluster-robust variances are those of a ratio of sums, linearized (Cochran 1977, section 6.4).
Needs scipy (the extra `eval`), which is imported on first use. The same data give the same figures.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError

Floats = NDArray[np.float64]
Clusters = Sequence[Hashable] | None
"""The question of each observation; None if every observation is its own question."""

ALPHA = 0.05
"""Intervals cover 95 %, and p up to 5 % is significant."""
NOTHING = 1e-9
"""Sums of squares below this are rounding errors: scores are in [0, 1], and their means are never this close."""
BLOCK = 1_000_000  # counts in a block of resamples, 8 MB; larger blocks were no faster


@dataclass(frozen=True)
class Share:
    """A mean of scores in [0, 1] with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % interval; the ends are None if all clusters agree or there is only one."""

    value: float
    low: float | None
    high: float | None
    n: int = 0
    """The number of values."""


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences in [-1, 1], its 95 % interval, and the two-sided p of "no difference"."""

    value: float
    low: float
    high: float
    p: float
    error: float
    """The cluster-robust standard error; 0 if all clusters agree."""
    clusters: int


def share(scores: Sequence[float], clusters: Clusters = None) -> Share:
    """Return the mean of `scores` with Wilson's interval for the effective number of observations.

    Korn and Graubard (1998), "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data", with Wilson's interval instead of Clopper and Pearson's. For
    right or wrong answers to questions that were each asked once, it equals Wilson's interval.

    Raises:
        ValueError: no scores.
        UsageError: the extra `eval` is not installed.
    """
    sums, sizes = by_cluster(scores, clusters)
    squares = by_cluster(np.square(scores), clusters)[0]
    whole = all(score in (0, 1) for score in scores)
    n, value = _effective_size(sums, sizes, sizes.sum() if whole else np.inf, squares), float(np.mean(scores))
    low, high = wilson(value, n)
    return Share(value, float(low), float(high))


def mean(values: Sequence[float], clusters: Clusters = None) -> Mean:
    """Return the mean of `values` of any size, with Student's interval of the cluster-robust standard error.

    If all values are in [0, 1] and not all are integers (counts), the interval is that of `share`.

    Raises:
        ValueError: no values.
        UsageError: the extra `eval` is not installed.
    """
    sums, sizes = by_cluster(values, clusters)
    if all(0 <= value <= 1 for value in values) and not all(isinstance(value, int) for value in values):
        interval = share(values, clusters)
        return Mean(interval.value, interval.low, interval.high, len(values))
    n, value = len(sums), float(sums.sum() / sizes.sum())
    error = float(np.sqrt(np.sum((sums - value * sizes) ** 2) * n / max(n - 1, 1)) / sizes.sum())
    if n == 1 or error < NOTHING * abs(value):
        return Mean(value, None, None, len(values))
    reach = float(scipy_stats().t.ppf(1 - ALPHA / 2, n - 1)) * error
    return Mean(value, value - reach, value + reach, len(values))


def mcnemar(left: Sequence[bool], right: Sequence[bool]) -> float:
    """Return the exact two-sided p of McNemar's test that the differing pairs are split evenly."""
    pairs = list(zip(left, right, strict=True))
    gained, lost = sum(b and not a for a, b in pairs), sum(a and not b for a, b in pairs)
    return float(min(1, 2 * scipy_stats().binom.cdf(min(gained, lost), gained + lost, 0.5)))


def as_tested(difference: Difference, p: float) -> Difference:
    """Return the difference with an interval that excludes 0 exactly when the test with this `p` rejects 0.

    An interval is the set of differences that a test does not reject. Differences other than 0 are tested by the
    bootstrap.
    """
    if p > ALPHA:
        return replace(difference, low=min(difference.low, 0.0), high=max(difference.high, 0.0))
    low, high = (
        (max(difference.low, NOTHING), difference.high)
        if difference.value > 0
        else (difference.low, min(difference.high, -NOTHING))
    )
    return replace(difference, low=low, high=high)


def paired_bootstrap(
    differences: Sequence[float], clusters: Clusters = None, *, resamples: int = 10_000, seed: int = 0
) -> Difference:
    """Return the mean of paired differences with a studentized bootstrap over whole clusters.

    The symmetric bootstrap-t (Hall 1988; for clusters Cameron, Gelbach and Miller 2008): p is the share of
    resamples that deviate at least as far in their own standard errors, and the interval's half-width is their 95 %
    quantile. The interval is cut at Wilson's upper limits of the shares of questions that changed for the better and
    for the worse, which matters when too few changed for resamples to vary. For clusters of different sizes see
    `_with_few`.

    Raises:
        ValueError: no differences.
        UsageError: the extra `eval` is not installed.
    """
    return studentised(*by_cluster(differences, clusters), resamples, seed)


def studentised(totals: Floats, sizes: Floats, resamples: int, seed: int) -> Difference:
    """Return the same difference as `paired_bootstrap`, from the sums and sizes of the clusters."""
    n, moments = len(totals), np.stack([totals, sizes, totals**2, totals * sizes, sizes**2], axis=1)
    value, error = (float(number) for number in _ratio(moments.sum(axis=0), n))
    if not error:
        return _unanimous(value, n, _at_most(np.zeros(n, dtype=bool), sizes))
    means, errors = _ratio(_resampled(moments, resamples, seed), n)
    strays = np.full(resamples, np.inf)  # a resample without variance counts against a difference
    np.divide(abs(means - value), errors, out=strays, where=errors > 0)
    p = float(1 + np.sum(strays >= abs(value) / error * (1 - 1e-9))) / (1 + resamples)
    reach = float(np.quantile(strays, 1 - ALPHA, method="higher")) * error
    if np.ptp(sizes):
        p, reach = _with_few(totals - value * sizes, sizes, value, (p, reach))
    worse, better = (_at_most(sign * totals > 0, sizes) for sign in (-1, 1))
    return Difference(value, max(value - reach, -worse), min(value + reach, better), float(p), error, n)


def _with_few(residuals: Floats, sizes: Floats, value: float, bootstrap: tuple[float, float]) -> tuple[float, float]:
    """Return the p and the half-width of an interval for clusters of different sizes, where a few may dominate.

    A resample seldom lacks the largest clusters, so it cannot show how much depends on them. p and half-width are
    therefore at least those of Student's t with the jackknife variance (CR3; Bell and McCaffrey 2002); its degrees
    of freedom follow from the effective number of clusters.
    """
    n, t = len(sizes), scipy_stats().t
    error = float(np.sqrt(np.sum((residuals / (1 - sizes / sizes.sum())) ** 2) * (n - 1) / n) / sizes.sum())
    freedom = max(1e-3, float(np.sum(sizes**2) ** 2 / np.sum(sizes**4)) - 1)
    p, reach = bootstrap
    return max(p, 2 * float(t.sf(abs(value) / error, freedom))), max(reach, float(t.isf(ALPHA / 2, freedom)) * error)


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p values after Holm's step-down correction (1979), which controls the family-wise error rate."""
    order, corrected = np.argsort(ps), np.empty(len(ps))
    corrected[order] = np.minimum(np.maximum.accumulate(np.asarray(ps)[order] * np.arange(len(ps), 0, -1)), 1)
    return [float(p) for p in corrected]


def by_cluster(values: Sequence[float] | Floats, clusters: Clusters) -> tuple[Floats, Floats]:
    """Return the sum and the size of each cluster."""
    if not len(values):
        raise ValueError("there are no observations")
    of = range(len(values)) if clusters is None else clusters
    numbers: dict[Hashable, int] = {}
    index = [numbers.setdefault(cluster, len(numbers)) for _, cluster in zip(values, of, strict=True)]
    sums = np.zeros(len(numbers))
    np.add.at(sums, index, values)
    return sums, np.bincount(index).astype(np.float64)


def _effective_size(totals: Floats, sizes: Floats, most: float, within: Floats) -> float:
    """Return how many independent observations have a mean as uncertain as this one.

    The result is at least `_uniform_clusters(sizes)`, the number for clusters that each answer uniformly. The
    variance is itself an estimate, and only a few clusters may differ, so a t quantile replaces the normal one; its
    degrees of freedom follow from the kurtosis (O'Neill 2014, "Some useful moment results in sampling problems").
    The largest clusters pull the mean towards themselves, so their residuals are too small. For clusters of
    different sizes the variance is therefore at least that of clusters with one common correlation, and the degrees
    of freedom are at most those of Satterthwaite (1946). `within` holds the sum of squares of each cluster's
    observations.
    """
    n, observations = len(totals), sizes.sum()
    least = _uniform_clusters(sizes)
    value = totals.sum() / observations
    residuals = totals - value * sizes
    squares = np.sum(residuals**2)
    if n == 1 or squares < NOTHING:
        return least
    variance = n / (n - 1) * squares / observations**2
    kurtosis = n * np.sum(residuals**4) / squares**2
    freedom = min(n - 1, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    if np.ptp(sizes):
        shares = sizes * (1 + (sizes - 1) * _likeness(totals, sizes, within))
        variance = max(variance, value * (1 - value) * shares.sum() / observations**2)
        freedom = min(freedom, shares.sum() ** 2 / np.sum(shares**2) - 1)
    stats = scipy_stats()
    wider = stats.t.ppf(1 - ALPHA / 2, freedom) / stats.norm.ppf(1 - ALPHA / 2)
    return float(np.clip(value * (1 - value) / variance / wider**2, least, max(least, most)))


def _likeness(totals: Floats, sizes: Floats, squares: Floats) -> float:
    """Return the correlation of two observations of a cluster, with equal weight for each cluster; 1 if unknown.

    It is 1 minus the ratio of the variance within clusters to the total variance.
    """
    several = sizes > 1
    spread = float(np.mean(squares / sizes) - np.mean(totals / sizes) ** 2)
    if several.sum() < 2 or spread < NOTHING:
        return 1.0
    inside = (squares[several] - totals[several] ** 2 / sizes[several]) / (sizes[several] - 1)
    return float(np.clip(1 - inside.mean() / spread, 0, 1))


def _uniform_clusters(sizes: Floats) -> float:
    """Return the effective number of clusters that each answer uniformly: their count if all have one size."""
    return float(sizes.sum() ** 2 / np.sum(sizes**2))


def _at_most(changed: NDArray[np.bool_], sizes: Floats) -> float:
    """Return Wilson's upper limit of the share of clusters that changed, weighted by size."""
    n = _uniform_clusters(sizes)
    return float(wilson(float(sizes[changed].sum() / sizes.sum()), n)[1])


def _ratio(moments: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the mean and its standard error from sums over n clusters (..., 5), as `studentised` stacks them."""
    sums, sizes, sums2, cross, sizes2 = np.moveaxis(moments, -1, 0)
    value = sums / sizes
    squares = sums2 - 2 * value * cross + value**2 * sizes2
    return value, np.sqrt(np.where(squares < NOTHING, 0, squares) * n / max(n - 1, 1)) / sizes


def _resampled(moments: Floats, resamples: int, seed: int) -> Floats:
    """Return the sums (resamples, 5) over clusters drawn with replacement, block by block to bound the memory."""
    n, rng = len(moments), np.random.default_rng(seed)
    blocks = []
    for start in range(0, resamples, step := max(1, BLOCK // n)):
        rows = min(step, resamples - start)
        drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        blocks.append(np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n) @ moments)
    return np.concatenate(blocks)


def _unanimous(value: float, n: int, unseen: float) -> Difference:
    """Return the difference if all clusters differ equally (mostly by 0) and a share `unseen` might not.

    p is that of the sign test.
    """
    p = 2.0 ** (1 - n) if abs(value) > NOTHING else 1.0
    low, high = max(-1.0, value - unseen), min(1.0, value + unseen)
    if p > ALPHA:  # too few clusters: interval and test must agree
        low, high = min(low, 0.0), max(high, 0.0)
    return Difference(value, low, high, p, 0.0, n)


def wilson(share: float | Floats, n: float) -> tuple[Floats, Floats]:
    """Return the limits of Wilson's interval (1927) of shares of `n` observations."""
    z = scipy_stats().norm.isf(ALPHA / 2)
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.clip(center - reach, 0, 1), np.clip(center + reach, 0, 1)


def check_installed() -> None:
    """Check that the extra `eval` is installed before hours of work whose results need it. Errors: `scipy_stats`."""
    scipy_stats()


def scipy_stats() -> Untyped:
    """Import and return `scipy.stats`.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    try:
        return import_module("scipy.stats")
    except ImportError as error:
        raise UsageError("statistics need the extra 'eval', which is not installed: pip install scipy") from error
