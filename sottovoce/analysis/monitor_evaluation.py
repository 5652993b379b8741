"""Evaluation of a monitor on held-out games, compared with random baselines.

The gain is what one reset at each game's first trigger adds to the share of successes, if games succeed after a reset
as often as they do on average (monitors.threshold). The interval of a difference is over games, with their share of
successes taken as given; it needs the extra `eval`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sottovoce.analysis.statistics import Difference, paired_bootstrap
from sottovoce.core.errors import UsageError
from sottovoce.monitors.dataset import Floats, Games
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.threshold import chances, equal_resets, game_gains


@dataclass(frozen=True)
class Resets:
    """The effect of one trigger; for a random one, the expected effect."""

    trigger: str
    threshold: float
    games: float
    """The number of games that are reset."""
    of_failed: float
    """The share of failed games that are reset."""
    of_successful: float
    gain: float


@dataclass(frozen=True)
class MonitorEvaluation:
    """The evaluation of a monitor on held-out games."""

    games: int
    failed: int
    triggers: list[Resets]
    """The monitor, a random trigger with as many resets, and one with the threshold chosen on validation games."""
    difference: Difference
    """The gain of the first minus that of the second."""


def evaluate_monitor(monitor: Monitor, games: Games) -> MonitorEvaluation:
    """Evaluate a monitor and random baselines on games of its role.

    Raises:
        UsageError: the games are measured differently from the monitor's, lack a feature, or all failed or all
            succeeded, or the extra `eval` is not installed.
    """
    monitor.check_measured(games.measured)
    if games.failed.all() or not games.failed.any():
        raise UsageError(f"all {len(games)} games {'failed' if games.failed.all() else 'succeeded'}; expected both")
    above = _triggered(monitor, games)
    equal = equal_resets(games.turns, float(above.sum()))
    by_chance = chances(games.turns, equal)
    triggers = [
        _resets("monitor", monitor.threshold, above, games),
        _resets("random, as many resets", equal, by_chance, games),
    ]
    if monitor.fitted is not None:
        own = monitor.fitted.random_threshold
        triggers.append(_resets("random, chosen by gain", own, chances(games.turns, own), games))
    differences = len(games) * game_gains(games.failed) * (above - by_chance)
    return MonitorEvaluation(len(games), int(games.failed.sum()), triggers, paired_bootstrap(differences.tolist()))


def _triggered(monitor: Monitor, games: Games) -> Floats:
    """Return 0 or 1 for each game; for a random monitor the probability."""
    if monitor.is_random:
        return chances(games.turns, monitor.threshold)
    return (games.highest(monitor.scores(games.columns)) > monitor.threshold).astype(np.float64)


def _resets(trigger: str, threshold: float, triggered: Floats, games: Games) -> Resets:
    """Return the effect of triggers, given as 0 or 1 or a probability for each game."""
    of_failed, of_successful = (float(triggered[of].mean()) for of in (games.failed, ~games.failed))
    gain = float(game_gains(games.failed) @ triggered)
    return Resets(trigger, threshold, float(triggered.sum()), of_failed, of_successful, gain)
