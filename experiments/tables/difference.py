"""The difference of an obtained figure from a published one, as two independent samples, with its power.

A share is treated as right or wrong answers to its questions, each asked once. Repeated discussions of a question add
information, but papers do not print how much, so the interval errs on the wide side. If a paper prints an error, the
number of answers is the one that gives this error. Needs the extra `eval`.
"""

from __future__ import annotations

from math import hypot, sqrt
from statistics import NormalDist

from sottovoce.analysis.power import POWER, TwoSamples, two_samples
from sottovoce.analysis.statistics import ALPHA, Mean
from sottovoce.experiments.tables.figures import Figure
from sottovoce.experiments.tables.table_schema import INTERVAL, STANDARD_ERROR

REACH = NormalDist().inv_cdf(1 - ALPHA / 2)
"""Half the width of a 95 % interval, in standard errors."""
SHOWN = REACH + NormalDist().inv_cdf(POWER)
"""A true difference that shows in 4 of 5 cases, in standard errors."""

DIFFERENCES = (
    "Differences are obtained minus published, with 95 % intervals; by chance alone, one line in twenty differs."
)


def difference(
    ours: Mean, questions: int, printed: Figure, n: int | None, error: str, *, gain: bool, scale: float
) -> TwoSamples | None:
    """Return the difference from the printed figure, in its unit; None if an error is unknown.

    Args:
        ours: The obtained mean, in the unit of the printed figure.
        questions: The number of questions behind it.
        printed: The figure.
        n: The paper's number of questions.
        error: The kind of error that the paper prints (see `schema.Error`).
        gain: The figure is a difference of two shares.
        scale: 100 for percentages.
    """
    own = _error(printed, error)
    if not gain and 0 <= min(ours.value, printed.mean) and max(ours.value, printed.mean) <= scale:
        share = printed.mean / scale
        n = (round(share * (1 - share) / (own / scale) ** 2) if own else 0) or n
        return None if not n else _scaled(two_samples(ours.value / scale, questions, share, n), scale)
    if gain and own is None and n:
        own = scale * sqrt(0.5 / n)
    if own is None or ours.low is None or ours.high is None:
        return None
    both, by = hypot(own, (ours.high - ours.low) / 2 / REACH), ours.value - printed.mean
    return TwoSamples(by, by - REACH * both, by + REACH * both, SHOWN * both)


def assumed(error: str) -> str:
    """Return the assumptions about a paper's figures, in words."""
    if error in (STANDARD_ERROR, INTERVAL):
        taken = f"The paper's errors ({error}) are used; a share without one counts its questions, each asked once."
    else:
        prints = "does not say what its spreads are" if error == "not said" else "prints no errors"
        taken = (
            f"The paper {prints}: a share counts its questions, each asked once, a gain is the difference of two such "
            "shares near one half, and other figures are not compared."
        )
    return f"{DIFFERENCES} {taken}"


def _error(printed: Figure, error: str) -> float | None:
    """Return the printed standard error; None if there is none or it is 0, which is the spread of identical runs."""
    if not printed.spread or error not in (STANDARD_ERROR, INTERVAL):
        return None
    return printed.spread / (REACH if error == INTERVAL else 1)


def _scaled(found: TwoSamples, scale: float) -> TwoSamples:
    smallest = None if found.smallest is None else scale * found.smallest
    return TwoSamples(scale * found.value, scale * found.low, scale * found.high, smallest)
