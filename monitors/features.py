"""How unsure a model was: entropy, varentropy and kurtosis of distributions of the next token (arXiv 2502.05986).

Natural logarithms. Check: (.7, .2, .05, .05) has entropy .871133, varentropy .745678, kurtosis 3.859479.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import UsageError

Features = dict[str, float]
"""Statistics by name."""
FLOOR = 1e-7
"""Below it, what has its logarithm taken is cut: the paper's code, for WhoDunit."""
LOGGED = ("entropy", "varentropy")
ENOUGH_VARIANCE = 1e-12  # below it a distribution is flat or one-hot, and its kurtosis 0 by convention
ABOVE_ONE = 1e-3  # a log-probability above is none: rounding in half precision stays below


def statistics(logprobs: ArrayLike, *, renormalise: bool = False) -> Features:
    """Of one distribution, whole or the most probable tokens alone, from its log-probabilities.

    entropy H = -sum p ln p (nats); varentropy sum p (ln p + H)^2; kurtosis sum p (ln p + H)^4 / varentropy^2, as in the
    paper, whose minus before the varentropy is a misprint; kurtosis_logprob_excess, as in its code: the excess kurtosis
    of the plain vector of log-probabilities, each counted once. Where nothing varies a kurtosis is 0.

    Of the most probable tokens p sums to less than 1, and is taken as it is, as the paper's code does; `renormalise`
    makes it sum to 1.

    Raises:
        UsageError: nothing was given, or something that is no log-probability.
    """
    logs = _checked(logprobs)
    if renormalise:
        logs = logs - np.logaddexp.reduce(logs)
    p = np.exp(logs)
    entropy = 0.0 - float(p @ logs)
    spread = (logs + entropy) ** 2
    varentropy = float(p @ spread)
    return {
        "entropy": entropy,
        "varentropy": varentropy,
        "kurtosis": _ratio(float(p @ spread**2), varentropy),
        "kurtosis_logprob_excess": _excess(logs),
    }


def joint(tops: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Log-probabilities of all combinations of one token of each list, as if they were independent."""
    return reduce(lambda a, b: np.add.outer(a, b).ravel(), [np.asarray(each, dtype=np.float64) for each in tops])


def independent(first: Mapping[str, float], second: Mapping[str, float]) -> Features:
    """Statistics of the joint of two independent distributions, from those of each.

    What `statistics(joint([a, b]))` gives for whole distributions, without their product: entropies and varentropies
    add, and so do the fourth moments, with 6 times the product of the varentropies. The code's kurtosis is left out.
    """
    a, b = first["varentropy"], second["varentropy"]
    fourth = first["kurtosis"] * a**2 + second["kurtosis"] * b**2 + 6 * a * b
    return {"entropy": first["entropy"] + second["entropy"], "varentropy": a + b, "kurtosis": _ratio(fourth, a + b)}


def combined(found: Iterable[Mapping[str, float]], how: Callable[[Iterable[float]], float] = max) -> Features:
    """Each statistic over several positions: the highest of each; `min` over agents makes a group's (GovSim)."""
    first, *others = found
    return {name: how([each[name] for each in (first, *others)]) for name in first}


def logged(columns: Mapping[str, ArrayLike]) -> dict[str, ArrayLike]:
    """With the logarithms of entropy and varentropy, floored; the rest as it is."""
    return {name: np.log(np.maximum(each, FLOOR)) if name in LOGGED else each for name, each in columns.items()}


def _checked(logprobs: ArrayLike) -> NDArray[np.float64]:
    """What has any mass, in float64."""
    given: Any = np.asarray(logprobs, dtype=np.float64)
    found: NDArray[np.float64] = given[given != -np.inf]  # no mass adds nothing
    if given.ndim != 1 or not found.size:
        raise UsageError(f"found log-probabilities of shape {given.shape}; expected a list of some that are finite")
    if not np.isfinite(found).all() or found.max() > ABOVE_ONE:
        raise UsageError(f"{found.max()} is no log-probability; expected ln p, at most 0, for each token")
    return found


def _ratio(fourth: float, variance: float) -> float:
    return fourth / variance**2 if variance > ENOUGH_VARIANCE else 0.0


def _excess(values: NDArray[np.float64]) -> float:
    """Fisher's, biased: 0 for a normal distribution."""
    squares = (values - values.mean()) ** 2
    variance = float(squares.mean())
    return float((squares**2).mean()) / variance**2 - 3 if variance > ENOUGH_VARIANCE else 0.0
