"""Shares, differences and tests over questions, each discussed once or several times.

Discussions of one question under several seeds form a cluster: they are correlated and carry less information than as
many questions would. Cluster-robust variances are computed for a ratio of sums, linearized (Cochran 1977, section 6.4).
Intervals and tests come from scipy and statsmodels (the extra `eval`) where they have them; both are imported on first
use, and a UsageError says what to install. The same data give the same figures.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
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
EXACT = 16
"""Up to so many differences, all combinations of their signs are tried."""


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
    """A mean of paired differences, its 95 % interval, and the two-sided p of "no difference"."""

    value: float
    low: float
    high: float
    p: float
    error: float
    """The standard error over questions; 0 if all agree."""
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
    value, n, k = float(np.mean(scores)), float(len(scores)), len(sums)
    least = float(sizes.sum() ** 2 / np.sum(sizes**2))  # Kish's effective number of clusters, if each answers uniformly
    if 1 < k and (k < n or not all(score in (0, 1) for score in scores)):
        residuals = sums - value * sizes
        # The jackknife's error: the largest clusters pull the mean, so that their residuals are too small.
        pulls = residuals / (1 - sizes / sizes.sum())
        error = float(np.sqrt(np.sum(pulls**2) * (k - 1) / k) / sizes.sum())
        # Where few clusters differ the variance itself is uncertain (O'Neill 2014, "Some useful moment results").
        kurtosis = k * np.sum(residuals**4) / max(NOTHING, np.sum(residuals**2) ** 2)
        freedom = min(max(1, least - 1), 2 * k / max(NOTHING, kurtosis - (k - 3) / (k - 1)))
        narrower = HALF_WIDTH / float(imported("scipy.stats").t.isf(ALPHA / 2, freedom))
        most = n if all(score in (0, 1) for score in scores) else np.inf
        n = max(least, min(most, value * (1 - value) * (narrower / error) ** 2)) if error > NOTHING else least
    elif k < n:
        n = least
    low, high = imported("statsmodels.stats.proportion").proportion_confint(value * n, n, ALPHA, method="wilson")
    return Share(value, max(0.0, float(low)) if value > 0 else 0.0, min(1.0, float(high)))  # 0 of n has a low of 3e-18


def mean(values: Sequence[float], clusters: Clusters = None, *, shares: bool) -> Mean:
    """Return the mean of `values` of any size, with Student's interval of the cluster-robust standard error.

    If they are `shares` (0 or 1, or grades in [0, 1]), the interval is that of `share`.

    Raises:
        ValueError: no values.
    """
    sums, sizes = by_cluster(values, clusters)
    if shares:
        interval = share(values, clusters)
        return Mean(interval.value, interval.low, interval.high, len(values))
    n, value = len(sums), float(sums.sum() / sizes.sum())
    error = float(np.sqrt(np.sum((sums - value * sizes) ** 2) * n / max(n - 1, 1)) / sizes.sum())
    if n == 1 or error < NOTHING * abs(value):
        return Mean(value, None, None, len(values))
    reach = float(imported("scipy.stats").t.ppf(1 - ALPHA / 2, n - 1)) * error
    return Mean(value, value - reach, value + reach, len(values))


def holm(ps: Sequence[float]) -> list[float]:
    """Return the p values after Holm's step-down correction (1979), which controls the family-wise error rate."""
    return [float(p) for p in imported("statsmodels.stats.multitest").multipletests(ps, method="holm")[1]] if ps else []


def newcombe(value: float, n: float, reference: float, reference_n: float) -> tuple[float, float]:
    """Return the limits of `value - reference`, shares of independent observations (Newcombe 1998, method 10)."""
    limits = imported("statsmodels.stats.proportion").confint_proportions_2indep(
        value * n, n, reference * reference_n, reference_n, method="newcomb", compare="diff"
    )
    return float(limits[0]), float(limits[1])


def detectable(difference: Difference, alpha: float = ALPHA) -> float | None:
    """Return the smallest true difference that four of five such comparisons would show at level `alpha`, or None.

    Its standard error is the larger of two: the observed one, and the error if only the questions that make up the
    difference had changed, which is the square root of the difference by the number of questions.
    """
    reach = NormalDist().inv_cdf(1 - alpha / 2) + POWER
    smallest = max(reach * difference.error, reach**2 / difference.clusters)
    return smallest if smallest <= 1 else None


def paired_test(differences: Sequence[float], clusters: Clusters = None, *, resamples: int = 9_999) -> Difference:
    """Return the mean of paired differences with its interval, and the p of the permutation test of their signs.

    Under "no difference" each question's difference is as likely as its negative (Fisher). The test is exact if all
    differences other than 0 have one size, as for right and wrong answers (McNemar's exact test), or if there are at
    most 16 of them; else it draws `resamples` of signs. The interval is Student's after adding a pair of opposite
    differences, to allow for differences that few questions do not show. Their size is 1 for right and wrong answers,
    as in Bonett and Price (2012), "Adjusted Wald confidence interval for a difference of binomial proportions based on
    paired data". For graded answers it is the geometric mean of 1 and the differences' root mean square. The interval
    excludes 0 exactly if p is at most 5 %.

    Raises:
        ValueError: no differences.
    """
    sums, sizes = by_cluster(differences, clusters)
    values = sums * len(sums) / sizes.sum()  # their mean is that of all differences
    changed = values[abs(values) > NOTHING]
    size = float(np.sqrt(np.mean(changed**2))) if len(changed) else 1.0
    size, p = max(size, size**0.5), _sign_test(changed, resamples)
    interval = imported("scipy.stats").ttest_1samp([*values, size, -size], 0).confidence_interval(1 - ALPHA)
    value, bound = float(values.mean()), max(1.0, float(abs(values).max()))
    low, high = max(-bound, float(interval.low)), min(bound, float(interval.high))
    if p > ALPHA:
        low, high = min(low, 0.0), max(high, 0.0)
    elif value > 0:
        low = max(low, NOTHING)
    else:
        high = min(high, -NOTHING)
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return Difference(value, low, high, p, error, len(values))


def _sign_test(changed: Floats, resamples: int) -> float:
    """Return the two-sided p of differences other than 0, if each is as likely as its negative."""
    if not len(changed):
        return 1.0
    if np.ptp(abs(changed)) < NOTHING:
        return float(imported("scipy.stats").binomtest(int(np.sum(changed > 0)), len(changed)).pvalue)
    draws = 2**EXACT if len(changed) <= EXACT else resamples
    test = imported("scipy.stats").permutation_test(
        (changed,), np.mean, permutation_type="samples", vectorized=True, n_resamples=draws, random_state=0
    )
    return float(test.pvalue)


def by_cluster(values: Sequence[float] | Floats, clusters: Clusters) -> tuple[Floats, Floats]:
    """Return the sum and the size of each cluster."""
    if not len(values):
        raise ValueError("there are no observations")
    of = range(len(values)) if clusters is None else clusters
    numbers: dict[Hashable, int] = {}
    index = [numbers.setdefault(cluster, len(numbers)) for _, cluster in zip(values, of, strict=True)]
    return np.bincount(index, values).astype(np.float64), np.bincount(index).astype(np.float64)


def check_installed() -> None:
    """Check that the extra `eval` is installed, before hours of work that needs it at the end. Errors: `imported`."""
    imported("statsmodels.stats.proportion")


def imported(name: str, needed_by: str = "statistics") -> Untyped:
    """Import a module of scipy, statsmodels, matplotlib or optuna.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"{needed_by} need the extra 'eval': pip install 'sottovoce[eval]'") from error
