"""Uncertainty of a model: entropy, varentropy and kurtosis of its next-token distributions (arXiv 2502.05986).

Logarithms are natural. Example: (.7, .2, .05, .05) has entropy .871133, varentropy .745678, kurtosis 3.859479.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.core.errors import UsageError
from sottovoce.monitors.settings import Measure
from sottovoce.monitors.tokens import POSITIONS, Spot, Tokens

Features = dict[str, float]
"""Statistics by name."""
FLOOR = 1e-7
"""Values below it are raised to it before their logarithm is taken, as in the paper's code for WhoDunit."""
LOGGED = ("entropy", "varentropy")
ENOUGH_VARIANCE = 1e-12  # below it a distribution is flat or one-hot, and its kurtosis is 0 by convention
ABOVE_ONE = 1e-3  # largest log-probability that rounding in half precision explains


def statistics(logprobs: ArrayLike, *, renormalise: bool = False) -> Features:
    """Return the statistics of one distribution from the log-probabilities of all or only the most probable tokens.

    entropy H = -sum p ln p (nats); varentropy sum p (ln p + H)^2; kurtosis sum p (ln p + H)^4 / varentropy^2, as in the
    paper, whose minus before the varentropy is a misprint; kurtosis_logprob_excess, as in its code: the excess kurtosis
    of the vector of log-probabilities, unweighted. A kurtosis is 0 if nothing varies.

    The p of the most probable tokens sum to less than 1. They are used unchanged, as in the paper's code, unless
    `renormalise` scales them to sum to 1.

    Raises:
        UsageError: the list is empty, or a value is not a log-probability.
    """
    logs = _checked(logprobs)
    if renormalise:
        logs = logs - np.logaddexp.reduce(logs)
    p = np.exp(logs)
    entropy = 0.0 - float(p @ logs)
    spread = (logs + entropy) ** 2
    varentropy = float(p @ spread)
    squares = (logs - logs.mean()) ** 2
    variance = float(squares.mean())
    # In Fisher's biased definition: 0 for a normal distribution.
    excess = float((squares**2).mean()) / variance**2 - 3 if variance > ENOUGH_VARIANCE else 0.0
    return {
        "entropy": entropy,
        "varentropy": varentropy,
        "kurtosis": _ratio(float(p @ spread**2), varentropy),
        "kurtosis_logprob_excess": excess,
    }


def joint(tops: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Return the log-probabilities of all combinations of one token per list, treating the lists as independent."""
    return reduce(lambda a, b: np.add.outer(a, b).ravel(), [np.asarray(each, dtype=np.float64) for each in tops])


def independent(first: Mapping[str, float], second: Mapping[str, float]) -> Features:
    """Return the statistics of the joint of two independent distributions from the statistics of each.

    The result equals `statistics(joint([a, b]))` of whole distributions, without computing their product: entropies
    and varentropies add; fourth moments add, plus 6 times the product of the varentropies. The result lacks
    kurtosis_logprob_excess.
    """
    a, b = first["varentropy"], second["varentropy"]
    fourth = first["kurtosis"] * a**2 + second["kurtosis"] * b**2 + 6 * a * b
    return {"entropy": first["entropy"] + second["entropy"], "varentropy": a + b, "kurtosis": _ratio(fourth, a + b)}


def combined(statistics_at: Iterable[Mapping[str, float]], how: Callable[[Iterable[float]], float] = max) -> Features:
    """Return the highest value of each statistic over positions; `min` over agents gives a group's (GovSim)."""
    first, *others = statistics_at
    return {name: how([values[name] for values in (first, *others)]) for name in first}


def logged(columns: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
    """Return the columns with logarithms of entropy and varentropy, floored at 1e-7; the others stay unchanged."""
    return {name: np.log(np.maximum(column, FLOOR)) if name in LOGGED else column for name, column in columns.items()}


def _checked(logprobs: ArrayLike) -> NDArray[np.float64]:
    """Return the log-probabilities that are not minus infinity, in float64."""
    values: Any = np.asarray(logprobs, dtype=np.float64)
    finite: NDArray[np.float64] = values[values != -np.inf]  # tokens without mass add nothing
    if values.ndim != 1 or not finite.size:
        raise UsageError(f"found log-probabilities of shape {values.shape}; expected a list with a finite value")
    if not np.isfinite(finite).all() or finite.max() > ABOVE_ONE:
        raise UsageError(f"{finite.max()} is not a log-probability; expected ln p, at most 0, for each token")
    return finite


def _ratio(fourth: float, variance: float) -> float:
    return fourth / variance**2 if variance > ENOUGH_VARIANCE else 0.0


def features_of(tokens: Tokens, measure: Measure) -> Features | None:
    """Return the highest value of each statistic over the selected positions; None if the reply has no such position.

    Whole distributions have entropy, varentropy and kurtosis; the most probable tokens also kurtosis_logprob_excess.

    Raises:
        UsageError: the model did not return the distributions to measure.
    """
    spots = POSITIONS[measure.positions](tokens)
    return combined(_at(tokens, spot, measure) for spot in spots) if spots else None


def _at(tokens: Tokens, spot: Spot, measure: Measure) -> Features:
    if measure.distribution == "top":
        tops = [tokens.top[at][: measure.top] for at in spot]
        if (fewest := min(map(len, tops))) < measure.top:
            raise UsageError(f"a position has {fewest} most probable tokens; expected top={measure.top}")
        return statistics(joint(tops), renormalise=measure.renormalise)
    if not tokens.full:
        raise UsageError("the model returned only its most probable tokens; measure with distribution=top")
    first, *others = ({name: values[at] for name, values in tokens.full.items()} for at in spot)
    for other in others:
        first = independent(first, other)
    return first
