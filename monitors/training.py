"""Training of monitors: feature sets and degrees are fitted on some games and compared on others (arXiv 2502.05986).

The model is a ridge regression of 0 or 1 (the game failed) on polynomials of the features. It needs the extra
`monitors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.core.errors import UsageError
from sottovoce.monitors.dataset import Games, RowFile
from sottovoce.monitors.features import logged
from sottovoce.monitors.monitor import Bounds, Fitted, Monitor, matrix, random_monitor
from sottovoce.monitors.settings import RANDOM, TURN, Rank, Training
from sottovoce.monitors.threshold import (
    Triggered,
    best_chance,
    best_threshold,
    chances,
    conformal_threshold,
    game_gains,
    triggered,
)

ALPHA = 1.0
"""Strength of the ridge regression's penalty."""
TENTH = 10  # of every ten games, three are used for choosing
FIXED_TURNS: Bounds = (0.0, 15.0)


@dataclass(frozen=True)
class Tried:
    """A candidate, at the threshold of its largest gain on the games used for choosing."""

    monitor: Monitor
    triggered: Triggered


@dataclass(frozen=True)
class Split:
    """The games of one role, by purpose."""

    fitted: Games
    choosing: Games
    """Games for choosing features, degree and threshold."""
    calibrating: Games
    """Games for a threshold that limits false alarms; distinct from `choosing` if there are several candidates."""


@dataclass(frozen=True)
class Trained:
    """The result of a training."""

    monitor: Monitor
    """The monitor to save."""
    tried: list[Tried]
    """Candidates by decreasing gain, each at the threshold of its largest gain."""
    split: Split


def train(file: RowFile, role: str | None, training: Training) -> Trained:
    """Fit all candidates on some games of a role and choose by others; the same rows give the same monitor.

    Raises:
        UsageError: rows, role, features or number of games are insufficient, or the extra `monitors` is not installed.
    """
    games = file.games(role)
    parts = split(games, training)
    candidates = tried(parts, training)
    monitor, gain = _chosen(candidates, parts, training)
    fitted = Fitted(
        data=file.path.name,
        sha256=file.digest,
        games=len(games),
        failed=int(games.failed.sum()),
        turns=len(games.game),
        validation=len(games) - len(parts.fitted),
        seed=training.seed,
        alpha=ALPHA,
        candidates=len(candidates),
        rank=training.rank,
        gain=gain,
        chosen_by="gain" if training.false_alarms is None else f"false alarms of {training.false_alarms}",
        random_threshold=best_chance(parts.choosing.turns, parts.choosing.failed),
        made_by={name: version(name) for name in ("sottovoce", "scikit-learn", "numpy")},
    )
    return Trained(monitor.model_copy(update={"fitted": fitted}), candidates, parts)


def _chosen(candidates: Sequence[Tried], parts: Split, training: Training) -> tuple[Monitor, float]:
    """Return the monitor to save, and its gain at the saved threshold."""
    if training.rank == RANDOM:
        return _random(parts.choosing, training)
    if training.rank != "best" and len(candidates) < 2:
        raise UsageError(f"there is no {training.rank} of one candidate; leave features or degree to be chosen")
    places: dict[Rank, int] = {"best": 0, "second": 1, "worst": -1}
    chosen = candidates[places[training.rank]]
    if training.false_alarms is None:
        return chosen.monitor, chosen.triggered.gain
    games, new = parts.choosing, parts.calibrating
    highest = new.highest(chosen.monitor.scores(new.columns))[~new.failed]
    monitor = chosen.monitor.model_copy(update={"threshold": conformal_threshold(highest, training.false_alarms)})
    return monitor, triggered(games.highest(monitor.scores(games.columns)), games.failed, monitor.threshold).gain


def _random(games: Games, training: Training) -> tuple[Monitor, float]:
    if training.false_alarms is not None:
        raise UsageError("only a fitted monitor can limit false alarms; drop --false-alarms or --rank random")
    threshold = best_chance(games.turns, games.failed)
    return random_monitor(threshold, games.role), float(game_gains(games.failed) @ chances(games.turns, threshold))


def check_installed() -> None:
    """Check that training is possible before any work is done.

    Raises:
        UsageError: the extra `monitors` is not installed.
    """
    if find_spec("sklearn") is None:
        raise UsageError("training needs the extra 'monitors', which is not installed: pip install scikit-learn")


def split(games: Games, training: Training) -> Split:
    """Shuffle the games; three of every full ten are for choosing: of 300, 210 are for fitting and 90 for choosing."""
    order = np.random.RandomState(training.seed).permutation(len(games)).tolist()  # numpy's old generator, as the code
    if not (reserved := len(games) // TENTH * 3):
        raise UsageError(f"{len(games)} games of role {games.role!r} are too few; expected at least {TENTH}")
    choosing = calibrating = order[:reserved]
    if training.false_alarms is not None and len(training.candidates) > 1:
        choosing, calibrating = choosing[::2], choosing[1::2]
    for use, part in (("fitted to", order[reserved:]), ("chosen by", choosing)):
        failed = games.failed[part]
        if failed.all() or not failed.any():
            how = "failed" if failed.all() else "succeeded"
            raise UsageError(f"all {len(part)} games of role {games.role!r} that are {use} {how}; expected both kinds")
    return Split(*(games.part(part) for part in (order[reserved:], choosing, calibrating)))


def tried(parts: Split, training: Training) -> list[Tried]:
    """Return all candidates by decreasing gain; ties go to lower degree, fewer features, larger threshold."""
    check_installed()
    if not len(parts.fitted.game):
        raise UsageError(f"no turn of role {parts.fitted.role!r} has features; expected some")
    candidates = []
    for features, degree in training.candidates:
        monitor = fit(parts.fitted, features, degree, training)
        highest = parts.choosing.highest(monitor.scores(parts.choosing.columns))
        threshold, triggered = best_threshold(highest, parts.choosing.failed)
        candidates.append(Tried(monitor.model_copy(update={"threshold": threshold}), triggered))
    return sorted(candidates, key=_order)


def fit(games: Games, features: tuple[str, ...], degree: int, training: Training) -> Monitor:
    """Fit a monitor of these features and degree; its threshold is a placeholder, 1."""
    from sklearn.linear_model import Ridge  # imported late: it takes a second
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    columns = logged(games.columns) if training.log_features else games.columns
    bounds = tuple(_bounds(columns, name) for name in features)
    pipeline = make_pipeline(PolynomialFeatures(degree), Ridge(alpha=ALPHA))
    pipeline.fit(matrix(columns, features, bounds), games.failed[games.game].astype(np.float64))
    terms, ridge = pipeline[0], pipeline[-1]
    return Monitor(
        role=games.role,
        features=features,
        log_features=training.log_features,
        bounds=bounds,
        exponents=terms.powers_.tolist(),
        coefficients=ridge.coef_.tolist(),
        intercept=float(ridge.intercept_),
        threshold=1.0,
        measured=games.measured,
    )


def _order(candidate: Tried) -> tuple[float, ...]:
    monitor = candidate.monitor
    return (-candidate.triggered.surplus, monitor.degree, len(monitor.features), -monitor.threshold)


def _bounds(columns: Mapping[str, ArrayLike], name: str) -> Bounds:
    if name == TURN:
        return FIXED_TURNS
    values = np.asarray(columns.get(name, 0.0))  # if it is missing, `matrix` raises the error
    return float(values.min()), float(values.max())
