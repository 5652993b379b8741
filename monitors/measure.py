"""Features of one turn, measured in its reply."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.core.errors import UsageError
from sottovoce.monitors.features import Features, combined, independent, joint, statistics
from sottovoce.monitors.positions import POSITIONS, Spot
from sottovoce.monitors.settings import Measure
from sottovoce.monitors.tokens import Tokens


def features_of(tokens: Tokens, measure: Measure) -> Features | None:
    """Return the highest value of each statistic over the selected positions, or None if the reply has none of them.

    Whole distributions have entropy, varentropy and kurtosis; the most probable tokens also kurtosis_logprob_excess.

    Raises:
        UsageError: the model did not return the distributions to measure.
    """
    spots = POSITIONS[measure.positions](tokens)
    return combined(_at(tokens, spot, measure) for spot in spots) if spots else None


def _at(tokens: Tokens, spot: Spot, measure: Measure) -> Features:
    if measure.distribution == "top":
        tops = [_top(tokens.top[at], measure.top) for at in spot]
        return statistics(joint(tops), renormalise=measure.renormalise)
    if not tokens.whole:
        raise UsageError("the model returned only its most probable tokens; measure with distribution=top")
    first, *others = ({name: values[at] for name, values in tokens.whole.items()} for at in spot)
    for other in others:
        first = independent(first, other)
    return first


def _top(found: Sequence[float], k: int) -> Sequence[float]:
    if len(found) < k:
        raise UsageError(f"a position has {len(found)} most probable tokens; expected top={k}")
    return found[:k]
