"""Shares, differences and tests over questions, each discussed once or several times.

Discussions of one question under several seeds form a cluster: they are correlated and carry less information than
as many questions would. Cluster-robust variances are those of a ratio of sums, linearized (Cochran 1977, section 6.4).
Intervals and tests that scipy and statsmodels have (the extra `eval`) are theirs; both are imported on first use, and a
UsageError says what to install. The same data give the same figures.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError

Floats = NDArray[np.float64]
Clusters = Sequence[Hashable] | None
"""The question of each observation; None if every observation is its own question."""

ALPHA = 0.05
"""Intervals cover 95 %, and p up to 5 % is significant."""
HALF_WIDTH = NormalDist().inv_cdf(1 - ALPHA / 2)
"""Half the width of a 95 % interval, in standard errors."""
POWER = NormalDist().inv_cdf(0.8)
"""A difference that is larger than needed by so many standard errors shows in four of five cases."""
DETECTED = HALF_WIDTH + POWER
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

    Korn and Graubard (1998), "Confidence intervals for proportions with small expected number of positive counts
    estimated from survey data", with Wilson's interval instead of Clopper and Pearson's. For right or wrong answers to
    questions that were each asked once, it equals Wilson's interval.

    Raises:
        ValueError: no scores.
    """
    sums, sizes = by_cluster(scores, clusters)
    value, n, least = float(np.mean(scores)), float(len(scores)), _effective(sizes)
    if 1 < len(sums) and (len(sums) < n or not all(score in (0, 1) for score in scores)):
        residuals, k = sums - value * sizes, len(sums)
        error = _jackknife(residuals, sizes)
        # Where few clusters differ the variance itself is uncertain (O'Neill 2014, "Some useful moment results").
        kurtosis = k * np.sum(residuals**4) / max(NOTHING, np.sum(residuals**2) ** 2)
        freedom = min(max(1, least - 1), 2 * k / max(NOTHING, kurtosis - (k - 3) / (k - 1)))
        narrower = HALF_WIDTH / float(_scipy().t.isf(ALPHA / 2, freedom))
        most = n if all(score in (0, 1) for score in scores) else np.inf
        n = max(least, min(most, value * (1 - value) * (narrower / error) ** 2)) if error > NOTHING else least
    elif len(sums) < n:
        n = least
    return Share(value, *_wilson(value, n))


def mean(values: Sequence[float], clusters: Clusters = None, *, shares: bool = True) -> Mean:
    """Return the mean of `values` of any size, with Student's interval of the cluster-robust standard error.

    If all values are in [0, 1] and not all are integers (counts), they are `shares`, and the interval is that of
    `share`; pass False for amounts that may be larger, such as money.

    Raises:
        ValueError: no values.
    """
    sums, sizes = by_cluster(values, clusters)
    if shares and all(0 <= value <= 1 for value in values) and not all(isinstance(value, int) for value in values):
        interval = share(values, clusters)
        return Mean(interval.value, interval.low, interval.high, len(values))
    n, value = len(sums), float(sums.sum() / sizes.sum())
    error = float(np.sqrt(np.sum((sums - value * sizes) ** 2) * n / max(n - 1, 1)) / sizes.sum())
    if n == 1 or error < NOTHING * abs(value):
        return Mean(value, None, None, len(values))
    reach = float(_scipy().t.ppf(1 - ALPHA / 2, n - 1)) * error
    return Mean(value, value - reach, value + reach, len(values))


def mcnemar(left: Sequence[bool], right: Sequence[bool]) -> float:
    """Return the exact two-sided p of McNemar's test that the differing pairs are split evenly."""
    pairs = list(zip(left, right, strict=True))
    gained, lost = sum(b and not a for a, b in pairs), sum(a and not b for a, b in pairs)
    return float(_scipy().binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p values after Holm's step-down correction (1979), which controls the family-wise error rate."""
    return (
        [float(p) for p in _imported("statsmodels.stats.multitest").multipletests(ps, method="holm")[1]] if ps else []
    )


def newcombe(value: float, n: float, reference: float, reference_n: float) -> tuple[float, float]:
    """Return the limits of `value - reference`, shares of independent observations (Newcombe 1998, method 10)."""
    limits = _imported("statsmodels.stats.proportion").confint_proportions_2indep(
        value * n, n, reference * reference_n, reference_n, method="newcomb", compare="diff"
    )
    return float(limits[0]), float(limits[1])


def detectable(difference: Difference, alpha: float = ALPHA) -> float | None:
    """Return the smallest true difference that four of five such comparisons would show at level `alpha`; None: none.

    Its standard error is the observed one, or, if that is smaller, the one if only questions changed that make up the
    difference: the square root of the difference by the number of questions.
    """
    reach = NormalDist().inv_cdf(1 - alpha / 2) + POWER
    smallest = max(reach * difference.error, reach**2 / difference.clusters)
    return smallest if smallest <= 1 else None


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
    for the worse, which matters when too few changed for resamples to vary. For clusters of different sizes, p and
    half-width are at least those of Student's t with the effective number of clusters.

    Raises:
        ValueError: no differences.
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
    if np.ptp(sizes):  # a resample seldom lacks the largest clusters, so it cannot show how much depends on them
        t, freedom = _scipy().t, max(1.0, _effective(sizes) - 1)
        wider = _jackknife(totals - value * sizes, sizes)
        p, reach = max(p, 2 * t.sf(abs(value) / wider, freedom)), max(reach, t.isf(ALPHA / 2, freedom) * wider)
    worse, better = (_at_most(sign * totals > 0, sizes) for sign in (-1, 1))
    return Difference(value, max(value - reach, -worse), min(value + reach, better), float(p), error, n)


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


def _jackknife(residuals: Floats, sizes: Floats) -> float:
    """Return the standard error of a mean over clusters; the largest pull it, so that their residuals are too small."""
    n = len(sizes)
    return float(np.sqrt(np.sum((residuals / (1 - sizes / sizes.sum())) ** 2) * (n - 1) / n) / sizes.sum())


def _effective(sizes: Floats) -> float:
    """Return the effective number of clusters of equal size (Kish), if each answers uniformly."""
    return float(sizes.sum() ** 2 / np.sum(sizes**2))


def _at_most(changed: NDArray[np.bool_], sizes: Floats) -> float:
    """Return Wilson's upper limit of the share of clusters that changed, weighted by size."""
    return _wilson(float(sizes[changed].sum() / sizes.sum()), _effective(sizes))[1]


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


def _wilson(share: float, n: float) -> tuple[float, float]:
    proportion = _imported("statsmodels.stats.proportion")
    low, high = proportion.proportion_confint(share * n, n, ALPHA, method="wilson")
    return (max(0.0, float(low)) if share > 0 else 0.0), min(1.0, float(high))  # 0 of n gives a low of 3e-18 there


def check_installed() -> None:
    """Check that the extra `eval` is installed before hours of work whose results need it. Errors: `_imported`."""
    _imported("statsmodels.stats.proportion")


def _scipy() -> Untyped:
    return _imported("scipy.stats")


def _imported(name: str) -> Untyped:
    """Import a module of scipy or statsmodels.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError("statistics need the extra 'eval': pip install 'sottovoce[eval]'") from error
