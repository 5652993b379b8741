"""Thresholds: the gain, the search for its largest, false alarms held to a rate, and dice."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.errors import UsageError
from sottovoce.monitors.dataset import read_rows
from sottovoce.monitors.settings import Training
from sottovoce.monitors.tokens import FULL
from sottovoce.monitors.training import (
    Triggered,
    best_threshold,
    chances,
    conformal_threshold,
    equal_resets,
    game_gains,
    train,
    triggered,
)

GAMES = st.lists(st.tuples(st.integers(-20, 130).map(lambda n: n / 100), st.booleans()), min_size=1, max_size=30)


def test_the_gain_of_the_specification() -> None:
    assert Triggered(failed=20, successful=6, of_failed=40, of_successful=60).gain == pytest.approx(0.096, abs=1e-15)


@given(GAMES)
def test_the_threshold_is_that_of_brute_force(found: list[tuple[float, bool]]) -> None:
    """Over the definition of new success, in fractions, with ties to the larger threshold."""

    def gain(step: int) -> Fraction:
        n, lost = len(found), sum(failed for _, failed in found)
        above = [failed for score, failed in found if score > step / 100]
        tpr = Fraction(sum(above), lost) if lost else Fraction(0)
        fpr = Fraction(len(above) - sum(above), n - lost) if n > lost else Fraction(0)
        q = Fraction(n - lost, n)
        return q * fpr * q + q * (1 - fpr) + (1 - q) * tpr * q - q

    step = max(range(101), key=lambda step: (gain(step), step))

    threshold, at = best_threshold(np.array([s for s, _ in found]), np.array([failed for _, failed in found]))

    assert threshold == step / 100
    assert Fraction(at.surplus, len(found) ** 2) == gain(step)


@pytest.mark.parametrize(("m", "alpha", "rank"), [(9, 0.1, 9), (19, 0.1, 18), (20, 0.1, 19), (99, 0.05, 95)])
def test_the_conformal_threshold_is_the_score_of_its_rank(m: int, alpha: float, rank: int) -> None:
    scores = np.random.default_rng(0).permutation(np.arange(1.0, m + 1))

    assert conformal_threshold(scores, np.arange(m), alpha) == rank
    assert conformal_threshold(np.full(m, -np.inf), np.arange(m), 0.5) == 0.0  # nothing triggers
    with pytest.raises(UsageError, match=r"of 8 questions cannot limit false alarms to 0.1; expected at least 9"):
        conformal_threshold(np.zeros(24), np.arange(24) % 8, 0.1)


@pytest.mark.parametrize(("n", "seeds", "rate"), [(39, 1, 8 / 40), (10, 1, 2 / 11), (10, 5, 2 / 11), (10, 50, 2 / 11)])
def test_false_alarms_on_new_questions_are_as_rare_as_asked_however_many_seeds_a_question_had(
    n: int, seeds: int, rate: float
) -> None:
    """The games of a question have nearly one score, so that those of 10 questions show no more than 10 games do."""
    rng, questions = np.random.default_rng(0), np.repeat(np.arange(n), seeds)
    thresholds = (conformal_threshold(rng.normal(size=n)[questions], questions, 0.2) for _ in range(1000))
    rates = [float((rng.normal(size=200) > threshold).mean()) for threshold in thresholds]

    assert np.mean(rates) == pytest.approx(rate, abs=0.02)  # the mean strays by .004


def test_a_question_of_many_games_does_not_set_the_threshold_alone() -> None:
    scores, questions = np.array([*[9.0] * 90, *range(9)]), np.array([*[9] * 90, *range(9)])

    assert conformal_threshold(scores, questions, 0.25) == 8.0  # as for ten games, 0 to 9


def test_dice_trigger_games_by_their_length() -> None:
    thrown = np.random.default_rng(0).random((20_000, 3)).max(axis=1) > 0.8

    assert chances(np.array([0, 1, 3]), 0.8) == pytest.approx([0.0, 0.2, 0.488])
    assert thrown.mean() == pytest.approx(0.488, abs=0.01)


def test_as_many_games_are_reset_by_chance_as_were_asked_for() -> None:
    turns = np.array([0, 1, 5, 9])

    assert chances(turns, equal_resets(turns, 1.5)).sum() == pytest.approx(1.5, abs=1e-9)
    assert chances(turns, equal_resets(turns, 3)).sum() == pytest.approx(3)
    assert chances(turns, equal_resets(turns, 0)).sum() == pytest.approx(0, abs=1e-9)


def test_the_worth_of_games_adds_up_to_the_gain() -> None:
    failed, above = np.array([True, True, False, False, False]), np.array([1.0, 0, 1, 0, 0])

    assert game_gains(failed) @ above == pytest.approx(triggered(above, failed, 0.5).gain)


def test_a_choice_on_noise_gains_less_on_other_games_than_on_those_that_chose(tmp_path: Path) -> None:
    """The best of many thresholds looks good even if features say nothing; held-out games show that it is not."""
    chosen, others = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        (tmp_path / "rows.jsonl").write_text("\n".join(noise(rng, game) for game in range(100)))
        trained = train(read_rows(tmp_path / "rows.jsonl"), None, Training(features=["entropy"], degree=1))
        chosen.append(trained.tried[0].triggered.gain)
        others.append(trained.validated.mean())

    assert np.mean(chosen) > 0.02
    assert np.mean(others) < 0.005  # nothing; rather less, since the held-out games are missing from those that choose


def test_games_of_one_question_are_on_one_side(tmp_path: Path) -> None:
    """Features that only tell questions apart gained .15 when another seed of each question was fitted."""
    gains = []
    for seed in range(20):
        lines = [line for game in range(60) for line in [json.loads(noise(np.random.default_rng([seed, game]), game))]]
        rows = [{**line, "game": f"{line['game']}/{n}", "question": line["game"]} for line in lines for n in range(5)]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        trained = train(read_rows(tmp_path / "rows.jsonl"), None, Training(features=list(FULL), degree=5))
        gains.append(trained.validated.mean())

    parts = [
        {str(name).split("/")[0] for name in part.names} for part in (trained.split.fitted, trained.split.choosing)
    ]
    assert [*map(len, parts)] == [42, 18] and not parts[0] & parts[1]
    assert trained.split.fitted.question.tolist() == [n for n in range(42) for _ in range(5)]
    assert np.mean(gains) < 0.03


def noise(rng: np.random.Generator, game: int) -> str:
    """Return a turn whose features say nothing about its game's end."""
    features = dict(zip(FULL, rng.random(len(FULL)).tolist(), strict=True))
    return json.dumps({"game": game, "turn": 0, "role": "a", "features": features, "failed": game % 2 == 0})
