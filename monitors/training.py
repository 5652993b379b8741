"""Training of monitors: feature sets and degrees are fitted on some games and compared on others (arXiv 2502.05986).

The model is a ridge regression of 0 or 1 (the game failed) on polynomials of the features. It needs the extra
`monitors`.

A game is reset at most once and then succeeds as often as games do (share q). The new share of successes is q + gain
with gain = q(1 - q)(TPR - FPR). TPR is the share of failed games that trigger, and FPR the share of successful games
that trigger. If a of F failed and b of S successful games trigger among n games, the gain is (a S - b F) / n^2; gains
are compared as whole numbers, without rounding.

The random baseline draws a uniform number at each turn and triggers when the number is above its threshold tau, so in a
share 1 - tau of the turns. A game of n turns triggers with probability 1 - tau^n. The expected gain is computed from
that, without drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.monitors.dataset import Floats, Games, RowFile
from sottovoce.monitors.features import logged
from sottovoce.monitors.monitor import Bounds, Fitted, Monitor, matrix, random_monitor
from sottovoce.monitors.settings import RANDOM, TURN, Rank, Training

STEPS = 100
"""Thresholds are 0, 1/100, ..., 1."""
TAUS: Floats = np.arange(STEPS + 1) / STEPS
HALVINGS = 60  # an interval of length 1 is then smaller than rounding errors


@dataclass(frozen=True)
class Triggered:
    """Number of games that triggered, among failed and successful ones."""

    failed: int
    successful: int
    of_failed: int
    of_successful: int

    @property
    def surplus(self) -> int:
        """Gain, times the square of the number of games."""
        return self.failed * self.of_successful - self.successful * self.of_failed

    @property
    def gain(self) -> float:
        """Increase in the share of successes due to one reset."""
        return self.surplus / (self.of_failed + self.of_successful) ** 2


def triggered(highest: Floats, failed: NDArray[np.bool_], threshold: float) -> Triggered:
    """Count the games that trigger above a threshold, given the highest score of each game."""
    above = highest > threshold
    return Triggered(int((above & failed).sum()), int((above & ~failed).sum()), int(failed.sum()), int((~failed).sum()))


def best_threshold(highest: Floats, failed: NDArray[np.bool_]) -> tuple[float, Triggered]:
    """Return the threshold with the largest gain and its counts; ties go to the largest threshold."""
    counts = [(float(tau), triggered(highest, failed, float(tau))) for tau in TAUS]
    return max(counts, key=lambda pair: (pair[1].surplus, pair[0]))


def conformal_threshold(highest: Floats, questions: NDArray[np.intp], false_alarms: float) -> float:
    """Return a threshold from successful games' highest scores; at most this share of such games exceeds it.

    It is the ceil((1 - alpha)(m + 1))-th smallest score of m games (split conformal prediction). The games of one
    question count as one game (Lee, Barber and Willett 2023). The guarantee holds for games of new questions like
    these, provided that these games were not used to fit or choose the monitor.

    Raises:
        UsageError: too few questions for so low a rate.
    """
    _, of, sizes = np.unique(questions, return_inverse=True, return_counts=True)
    order, m = np.argsort(highest), len(sizes)
    below = np.cumsum(1 / sizes[of[order]])  # in questions
    rank = int(np.searchsorted(below, (1 - false_alarms) * (m + 1) - 1e-9))  # .9 * 20 is 18, not a little more
    if rank == len(highest):
        need = ceil(1 / false_alarms - 1 - 1e-9)
        found = f"successful games of {counted(m, 'question')} cannot limit false alarms to {false_alarms}"
        raise UsageError(f"{found}; expected at least {need}")
    threshold = float(highest[order[rank]])
    return threshold if np.isfinite(threshold) else 0.0  # most games have no score, so any threshold meets the rate


def chances(turns: NDArray[np.intp], threshold: float) -> Floats:
    """Return for each game the probability that it triggers at least once; `turns` are the games' lengths."""
    probabilities: Floats = 1.0 - np.power(threshold, turns, dtype=np.float64)
    return probabilities


def game_gains(failed: NDArray[np.bool_]) -> Floats:
    """Return how much each game adds to the gain if it triggers; its dot product with the triggers is the gain."""
    n, failures = len(failed), int(failed.sum())
    gains: Floats = np.where(failed, n - failures, -failures) / n**2
    return gains


def best_chance(turns: NDArray[np.intp], failed: NDArray[np.bool_]) -> float:
    """Return the threshold with the largest expected gain; ties go to the largest threshold."""
    gains = [float(game_gains(failed) @ chances(turns, float(tau))) for tau in TAUS]
    return float(max(zip(np.round(gains, 12), TAUS, strict=True))[1])


def equal_resets(turns: NDArray[np.intp], resets: float) -> float:
    """Return the threshold at which `resets` games trigger in expectation; 0 triggers every game that has a turn."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chances(turns, middle).sum() > resets else (low, middle)
    return high


ALPHA = 1.0
"""Strength of the ridge regression's penalty."""
TENTH = 10  # of every ten games, three are used for choosing
FOLDS = 10
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
    validated: Floats
    """The gain by each game, if candidate and threshold are chosen on games of the other folds' questions.

    The mean over the games is the gain on games that did not choose; it is not that of the best of many choices.
    """


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
    monitor = monitor.model_copy(update={"fitted": fitted})
    return Trained(monitor, candidates, parts, cross_validated(candidates, parts.choosing))


def cross_validated(candidates: Sequence[Tried], games: Games) -> Floats:
    """Return the gain by each game, with the candidate and threshold that are best on the other folds' questions."""
    highest = [games.highest(each.monitor.scores(games.columns)) for each in candidates]
    above, folds = np.zeros(len(games)), games.question % FOLDS
    for fold in range(FOLDS):
        choosing = folds != fold
        best = [best_threshold(scores[choosing], games.failed[choosing]) for scores in highest]
        at = max(range(len(best)), key=lambda at: best[at][1].surplus)
        above[~choosing] = highest[at][~choosing] > best[at][0]
    gains: Floats = len(games) * game_gains(games.failed) * above
    return gains


def _chosen(candidates: Sequence[Tried], parts: Split, training: Training) -> tuple[Monitor, float]:
    """Return the monitor to save, and its gain at the saved threshold."""
    games, new = parts.choosing, parts.calibrating
    if training.rank == RANDOM:
        if training.false_alarms is not None:
            raise UsageError("only a fitted monitor can limit false alarms; drop `false_alarms=` or `rank='random'`")
        threshold = best_chance(games.turns, games.failed)
        return random_monitor(threshold, games.role), float(game_gains(games.failed) @ chances(games.turns, threshold))
    if training.rank != "best" and len(candidates) < 2:
        raise UsageError(f"{training.rank} needs several candidates, and there is one; drop `features=` or `degree=`")
    places: dict[Rank, int] = {"best": 0, "second": 1, "worst": -1}
    chosen = candidates[places[training.rank]]
    if training.false_alarms is None:
        return chosen.monitor, chosen.triggered.gain
    highest, won = new.highest(chosen.monitor.scores(new.columns)), ~new.failed
    threshold = conformal_threshold(highest[won], new.question[won], training.false_alarms)
    monitor = chosen.monitor.model_copy(update={"threshold": threshold})
    return monitor, triggered(games.highest(monitor.scores(games.columns)), games.failed, monitor.threshold).gain


def check_installed() -> None:
    """Check that training is possible before any work is done.

    Raises:
        UsageError: the extra `monitors` is not installed.
    """
    if find_spec("sklearn") is None:
        raise UsageError("training needs the extra 'monitors': pip install 'sottovoce[monitors]'")


def split(games: Games, training: Training) -> Split:
    """Shuffle the questions; three of every full ten, with all their games, are for choosing: of 300, 90."""
    questions = len(np.unique(games.question))
    order = np.random.RandomState(training.seed).permutation(questions)  # numpy's old generator, as the code
    if not (reserved := questions // TENTH * 3):
        found = f"{counted(len(games), 'game')} of {counted(questions, 'question')}, role {games.role!r}"
        raise UsageError(f"found {found}; expected at least {TENTH} questions")
    choosing = calibrating = order[:reserved]
    if training.false_alarms is not None and len(training.candidates) > 1:
        choosing, calibrating = choosing[::2], choosing[1::2]
    questions_of = (order[reserved:], choosing, calibrating)
    parts = [games.part(np.flatnonzero(np.isin(games.question, part)).tolist()) for part in questions_of]
    for use, part in zip(("to fit", "to choose by"), parts, strict=False):
        if part.failed.all() or not part.failed.any():
            how, lacking = ("failed", "succeeded") if part.failed.all() else ("succeeded", "failed")
            found = f"role {games.role!r}: all {len(part)} games {use} {how}"
            raise UsageError(f"{found}; expected some that {lacking}: add games, or take another `seed=`")
    return Split(*parts)


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

    def place(candidate: Tried) -> tuple[float, ...]:
        monitor = candidate.monitor
        return -candidate.triggered.surplus, monitor.degree, len(monitor.features), -monitor.threshold

    return sorted(candidates, key=place)


def fit(games: Games, features: tuple[str, ...], degree: int, training: Training) -> Monitor:
    """Fit a monitor of these features and degree; its threshold is a placeholder, 1."""
    from sklearn.linear_model import Ridge  # imported late: it takes a second
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    columns = logged(games.columns) if training.log_features else games.columns
    # If a feature is missing, `matrix` raises the error.
    found = [(name, np.asarray(columns.get(name, 0.0))) for name in features]
    bounds = tuple(
        FIXED_TURNS if name == TURN else (float(values.min()), float(values.max())) for name, values in found
    )
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
