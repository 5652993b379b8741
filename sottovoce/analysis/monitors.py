"""Monitor datasets from saved runs, and the evaluation of a monitor on held-out games against random baselines.

A game is a question of a run under a seed, a turn a round; a game failed if the decision's score is below 1. Rows have
the messages that a monitor would see: the last of several attempts at an act, and withdrawn messages as they were sent,
but no answer turns.

The gain is the increase of the share of successes by one reset at each game's first trigger, if games succeed after a
reset as often as on average (monitors.training). The interval of a difference is over questions, with a fixed share of
successes; it needs the extra `eval`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.analysis.statistics import Difference, paired_test
from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import NO_TRUST, Trust
from sottovoce.monitors.dataset import Floats, Games, Row
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.settings import Measure
from sottovoce.monitors.tokens import Decode
from sottovoce.monitors.training import chances, equal_resets, game_gains
from sottovoce.nodes.guard import Decoders, features_of_acts, finished
from sottovoce.nodes.question import content_of, same_questions
from sottovoce.nodes.settings import Settings
from sottovoce.runs.run import Run

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def measure_of(runs: Sequence[Run], measure: Measure) -> Measure:
    """Return how rows of these runs are measured: at the requested positions, else at their scheme's positions."""
    known = {run.manifest.own_settings().measured_at for run in runs}
    if "positions" in measure.model_fields_set or len(known) != 1:
        return measure
    return measure.model_copy(update={"positions": known.pop()})


def collected(runs: Sequence[Run], measure: Measure, trust: Trust = NO_TRUST) -> tuple[list[Row], Counter[str]]:
    """Return the rows of all runs, and counts of skipped turns by reason; `trust` says which models may be opened.

    Raises:
        UsageError: there are no rows, or payloads lack the data to measure.
        PayloadError: a payload is missing or damaged.
    """
    rows: list[Row] = []
    passed: Counter[str] = Counter()
    names = [f"{number}/{run.folder.name if run.folder else ''}" for number, run in enumerate(runs)]
    contents = {
        (name, id): content_of(one.question)
        for name, run in zip(names, runs, strict=True)
        for (id, _), one in run.records.items()
    }
    questions = same_questions(contents)
    for name, run in zip(names, runs, strict=True):
        settings, store, decoders = run.manifest.own_settings(), run.store(), _decoders(run, trust)
        for (question, seed), record in run.records.items():
            if record.decision is None or (score := record.decision["score"]) is None:
                passed["discussions without a score"] += 1
                continue
            about = {"game": f"{name}/{question}/{seed}", "question": "/".join(questions[name, question])}
            done = finished(record.messages)
            measurable = [message for message in done if message.uncertainty is not None]
            judged = _groups(measurable, settings)
            passed["messages without a payload"] += len(done) - len(measurable)
            passed["messages that monitors do not see"] += len(measurable) - sum(map(len, judged))
            for messages in judged:
                role, turn = settings.role_of(messages[0].agent), messages[0].round
                features = features_of_acts(messages, measure, store, decoders)
                rows.append(Row(**about, turn=turn, role=role, features=features, failed=score < 1, measured=measure))
    if not rows:
        why = ", ".join(f"{n} {reason}" for reason, n in passed.items() if n) or "no discussion"
        raise UsageError(f"no turn is usable for training: found {why}; expected replies of local models, and targets")
    return rows, passed


def _decoders(run: Run, trust: Trust) -> Decoders:
    """Return decoders of token ids by agent; each loads only the tokenizer of its local model, at the first id."""

    def decoder(agent: str) -> Decode | None:
        if (model := run.manifest.models.get(agent)) is None:
            return None

        def decode(at: int) -> str:
            trust.check_paths(Settings(model=[model.model]), f"run {str(run.folder)!r}")
            return str(_tokenizer(model.model, model.vocabulary).decode([at]))

        return decode

    return decoder


@cache
def _tokenizer(name: str, vocabulary: str) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer; refuse a tokenizer other than the run's."""
    from sottovoce.models import load_tokenizer, vocabulary_digest  # late: transformers takes seconds

    tokenizer = load_tokenizer(name)
    if vocabulary_digest(tokenizer) != vocabulary:
        changed = f"the vocabulary of {name!r} has changed since the run, so its token ids would decode to other texts"
        raise UsageError(f"{changed}; restore that model, or choose other positions")
    return tokenizer


def _groups(messages: Sequence[Message], settings: Settings) -> list[list[Message]]:
    """Group messages as a monitor sees them: by agent and step, or as the scheme combines them."""
    groups = list[list[Message]]()
    for message in messages:
        if message.round < settings.watched_from or settings.together not in ("", message.act):
            continue
        if groups and _at_once(groups[-1], message, settings):
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _at_once(before: Sequence[Message], message: Message, settings: Settings) -> bool:
    last = before[-1]
    if settings.together:
        return (last.epoch, last.round) == (message.epoch, message.round)
    same = (last.epoch, last.time, last.agent) == (message.epoch, message.time, message.agent)
    return same and all(each.act != message.act for each in before)  # a repeated act starts a new group


# Evaluation


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
            succeeded.
    """
    monitor.check_measured(games.measured)
    if games.failed.all() or not games.failed.any():
        raise UsageError(f"all {len(games)} games {'failed' if games.failed.all() else 'succeeded'}; expected both")
    above = chances(games.turns, monitor.threshold)
    if not monitor.is_random:  # 0 or 1 for each game, not a probability
        above = (games.highest(monitor.scores(games.columns)) > monitor.threshold).astype(np.float64)
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
    difference = paired_test(differences.tolist(), games.question.tolist())
    return MonitorEvaluation(len(games), int(games.failed.sum()), triggers, difference)


def _resets(trigger: str, threshold: float, triggered: Floats, games: Games) -> Resets:
    """Return the effect of triggers, given as 0 or 1 or a probability for each game."""
    of_failed, of_successful = (float(triggered[of].mean()) for of in (games.failed, ~games.failed))
    gain = float(game_gains(games.failed) @ triggered)
    return Resets(trigger, threshold, float(triggered.sum()), of_failed, of_successful, gain)
