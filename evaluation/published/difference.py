"""How far an obtained figure is from a published one, as two independent samples, and what would have shown.

A share counts as one of as many right or wrong answers as there were questions, each asked once: several discussions
of a question tell more than one, by how much papers do not print, so this is the careful side. Where a paper prints
an error, its share counts as one of as many answers as have that error. Needs the extra `eval`.
"""

from __future__ import annotations

from math import hypot, sqrt
from statistics import NormalDist

from sottovoce.evaluation.power import POWER, TwoSamples, two_samples
from sottovoce.evaluation.published.figures import Figure
from sottovoce.evaluation.published.schema import INTERVAL, STANDARD_ERROR
from sottovoce.evaluation.statistics import ALPHA, Mean

REACH = NormalDist().inv_cdf(1 - ALPHA / 2)
"""Standard errors on either side of a mean in its 95 % interval."""
SHOWN = REACH + NormalDist().inv_cdf(POWER)
"""Standard errors of a true difference that shows in four of five cases."""

DIFFERENCES = (
    "Differences are ours less the published figure, with 95 % intervals, each by itself: one in twenty is chance."
)


def difference(
    ours: Mean, questions: int, printed: Figure, n: int | None, error: str, *, gain: bool, scale: float
) -> TwoSamples | None:
    """Return how far ours is from the printed figure, in its unit; None where nothing tells how sure either is.

    Args:
        ours: What was obtained, in the unit of the printed figure.
        questions: How many questions ours are of.
        printed: The figure.
        n: How many questions the paper's are of.
        error: What the paper prints behind its figures (see `schema.Error`).
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
    """Return in words what a paper's figures are taken for."""
    if error in (STANDARD_ERROR, INTERVAL):
        taken = f"The paper's errors ({error}) are used; a share without one is of its questions, each asked once."
    else:
        prints = "does not say what its spreads are of" if error == "not said" else "prints no errors"
        taken = (
            f"The paper {prints}: a share counts as one of its questions asked once, a gain as one of two such "
            "shares near one half, and of other figures no difference can be told."
        )
    return f"{DIFFERENCES} {taken}"


def _error(printed: Figure, error: str) -> float | None:
    """The standard error that a paper prints; None where there is none, or 0, which tells of repetition alone."""
    if not printed.spread or error not in (STANDARD_ERROR, INTERVAL):
        return None
    return printed.spread / (REACH if error == INTERVAL else 1)


def _scaled(found: TwoSamples, scale: float) -> TwoSamples:
    smallest = None if found.smallest is None else scale * found.smallest
    return TwoSamples(scale * found.value, scale * found.low, scale * found.high, smallest)
