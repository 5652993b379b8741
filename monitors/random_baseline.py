"""The random baseline (arXiv 2502.05986): a monitor that draws a uniform number at each turn and ignores the reply.

It triggers when the number is above its threshold tau, that is in a share 1 - tau of the turns. A game of n turns
triggers with probability 1 - tau^n. The expected gain is computed from that, without drawing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import UsageError
from sottovoce.monitors.dataset import Floats
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.settings import ALL, CHANCE, RANDOM
from sottovoce.monitors.threshold import TAUS

HALVINGS = 60  # an interval of length 1 is then smaller than rounding errors
RATE = 0.1
"""Share of turns at which `random` triggers if it has no rate."""


def monitor_of(name: str) -> Monitor:
    """Return the monitor that a setting names: `random`, `random:RATE`, or a file.

    Raises:
        UsageError: the rate is not in (0, 1], or the file cannot be read.
    """
    kind, colon, rate = name.partition(":")
    if kind != RANDOM:
        return Monitor.read(Path(name))
    return random_monitor(1 - (_rate(name, rate) if colon else RATE))


def random_monitor(threshold: float, role: str = ALL) -> Monitor:
    """Return a monitor whose score is a random number."""
    return Monitor(
        role=role,
        features=(CHANCE,),
        log_features=False,
        bounds=((-1.0, 1.0),),  # leaves the number as it is
        exponents=((1,),),
        coefficients=(1.0,),
        intercept=0.0,
        threshold=threshold,
    )


def chances(turns: NDArray[np.intp], threshold: float) -> Floats:
    """Return for each game the probability that it triggers at least once; `turns` are the games' lengths."""
    found: Floats = 1.0 - np.power(threshold, turns, dtype=np.float64)
    return found


def worth(failed: NDArray[np.bool_]) -> Floats:
    """Return how much each game adds to the gain if it triggers; its dot product with the triggers is the gain."""
    n, lost = len(failed), int(failed.sum())
    found: Floats = np.where(failed, n - lost, -lost) / n**2
    return found


def best_chance(turns: NDArray[np.intp], failed: NDArray[np.bool_]) -> float:
    """Return the threshold with the largest expected gain; ties go to the largest threshold."""
    gains = [float(worth(failed) @ chances(turns, float(tau))) for tau in TAUS]
    return float(max(zip(np.round(gains, 12), TAUS, strict=True))[1])


def equal_resets(turns: NDArray[np.intp], resets: float) -> float:
    """Return the threshold at which `resets` games trigger in expectation; 0 triggers every game that has a turn."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chances(turns, middle).sum() > resets else (low, middle)
    return high


def _rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = float("nan")
    if not 0 < rate <= 1:
        raise UsageError(f"watch is {name!r}; expected random:RATE with a share of turns in (0, 1], e.g. random:0.2")
    return rate
