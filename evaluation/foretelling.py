"""The worth of a monitor on games that had no part in its making, beside random monitors.

The gain is what one reset at each game's first trigger adds to the share of successes where a game that was reset
succeeds as often as games do (monitors.threshold). The interval of a difference is over games, their share of
successes taken as it is; it needs the extra `eval`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sottovoce.errors import UsageError
from sottovoce.evaluation.statistics import Difference, paired_bootstrap
from sottovoce.monitors.chance import chances, equal_resets, worth
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.rows import Floats, Games


@dataclass(frozen=True)
class Resets:
    """What one trigger does; of a random one what is to be expected."""

    trigger: str
    threshold: float
    games: float
    """That are reset."""
    of_failed: float
    """The part of failed games."""
    of_successful: float
    gain: float


@dataclass(frozen=True)
class Foretold:
    """A monitor on held-out games."""

    games: int
    failed: int
    triggers: list[Resets]
    """The monitor, a random trigger with as many resets, and one with the threshold that the validation games chose."""
    difference: Difference
    """Between the gains of the first and the second."""


def foretell(monitor: Monitor, games: Games) -> Foretold:
    """Let a monitor, and chance, trigger on games of its role.

    Raises:
        UsageError: the games are measured otherwise than the monitor's were, or lack a feature, or all failed or all
            succeeded, or the extra `eval` is not installed.
    """
    monitor.check_measured(games.measured)
    if games.failed.all() or not games.failed.any():
        raise UsageError(f"all {len(games)} games {'failed' if games.failed.all() else 'succeeded'}; expected both")
    above = _triggered(monitor, games)
    equal = equal_resets(games.turns, float(above.sum()))
    by_chance = chances(games.turns, equal)
    found = [
        _resets("monitor", monitor.threshold, above, games),
        _resets("random, as many resets", equal, by_chance, games),
    ]
    if monitor.fitted is not None:
        own = monitor.fitted.random_threshold
        found.append(_resets("random, chosen by gain", own, chances(games.turns, own), games))
    differences = len(games) * worth(games.failed) * (above - by_chance)
    return Foretold(len(games), int(games.failed.sum()), found, paired_bootstrap(differences.tolist()))


def _triggered(monitor: Monitor, games: Games) -> Floats:
    """Return 0 or 1 for each game; for a random monitor the probability."""
    if monitor.is_random:
        return chances(games.turns, monitor.threshold)
    return (games.highest(monitor.scores(games.columns)) > monitor.threshold).astype(np.float64)


def _resets(trigger: str, threshold: float, triggered: Floats, games: Games) -> Resets:
    """Of each game's trigger, 0 or 1, or how likely it is."""
    of_failed, of_successful = (float(triggered[of].mean()) for of in (games.failed, ~games.failed))
    gain = float(worth(games.failed) @ triggered)
    return Resets(trigger, threshold, float(triggered.sum()), of_failed, of_successful, gain)
