"""Training a monitor, its file, and what it is worth on games that it has not seen."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures

from sottovoce.analysis.monitors import evaluate_monitor
from sottovoce.core.errors import UsageError
from sottovoce.monitors.dataset import Row, games_of, read_rows
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.settings import Measure, Training
from sottovoce.monitors.training import Trained, fit, game_gains, split, train, tried
from tests.monitors.synthetic import games, rows, written
from tests.tables import each_row

LEAST = Training(features=["entropy"], degree=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The best of 35 on 200 games."""
    path = written(tmp_path_factory.mktemp("rows") / "games.jsonl", rows(200, seed=0))
    return train(read_rows(path), None, Training())


def test_there_are_35_candidates_and_ties_prefer_the_simpler(trained: Trained) -> None:
    ranking = [(-each.triggered.surplus, each.monitor) for each in trained.tried]
    keys = [(lost, each.degree, len(each.features), -each.threshold) for lost, each in ranking]

    assert len({(each.features, each.degree) for _, each in ranking}) == 35
    assert all(each.features[-1] == "turn" for _, each in ranking)
    assert keys == sorted(keys)


def test_the_scores_are_those_of_scikit_learn_s_own_pipeline() -> None:
    found = games(50, seed=1)
    names = ("entropy", "varentropy", "kurtosis", "turn")
    x = np.stack([found.columns[name] for name in names], axis=1)
    scaled = np.column_stack([MinMaxScaler((-1, 1)).fit_transform(x[:, :3]), 2 * x[:, 3] / 15 - 1])
    pipeline = make_pipeline(PolynomialFeatures(5), Ridge(alpha=1.0))
    expected = pipeline.fit(scaled, found.failed[found.game]).predict(scaled)

    monitor = fit(found, names, 5, Training())

    assert monitor.scores(found.columns) == pytest.approx(expected, abs=1e-9)


def test_the_same_rows_give_the_same_monitor(trained: Trained) -> None:
    again = tried(split(games(200, seed=0), Training()), Training())

    assert again[0].monitor.coefficients == trained.monitor.coefficients
    assert [each.monitor.threshold for each in again] == [each.monitor.threshold for each in trained.tried]


def test_a_file_gives_the_same_scores_to_the_bit(trained: Trained, tmp_path: Path) -> None:
    columns = games(20, seed=2).columns
    trained.monitor.save(tmp_path / "monitor.json")

    read = Monitor.read(tmp_path / "monitor.json")

    assert read == trained.monitor
    assert read.scores(columns).tolist() == trained.monitor.scores(columns).tolist()


def test_one_turn_is_scored_as_many_are_and_triggers_above_the_threshold() -> None:
    found = games(30, seed=3)
    monitor = fit(found, ("entropy", "turn"), 3, Training(log_features=True))
    scores = monitor.scores(found.columns)

    one = monitor.score({"entropy": found.columns["entropy"][4]}, int(found.columns["turn"][4]))

    assert one == pytest.approx(scores[4], abs=1e-12)
    assert not monitor.model_copy(update={"threshold": one}).triggers({"entropy": found.columns["entropy"][4]}, 4)
    assert monitor.model_copy(update={"threshold": -99.0}).triggers({"entropy": 0.0}, 0)
    assert monitor.score(None, 0) is None and not monitor.triggers(None, 0)


def test_the_turn_has_bounds_of_its_own_and_nothing_is_cut() -> None:
    found = games(30, seed=3)
    fixed = fit(found, ("entropy", "turn"), 1, Training())

    assert [*fixed.bounds[1]] == [0, 15]
    first, second, third = (fixed.score({"entropy": 0.5}, turn) or 0 for turn in (10, 20, 30))
    assert third - second == pytest.approx(second - first)


def test_three_games_in_ten_choose_and_none_of_them_is_fitted_to() -> None:
    parts = split(games(309, seed=0), Training())
    both = split(games(309, seed=0), Training(false_alarms=0.2))

    names = [{*part.names} for part in (parts.fitted, parts.choosing)]
    assert (len(parts.choosing), len(parts.fitted), names[0] & names[1]) == (90, 219, set())
    assert names[1] == {*np.random.RandomState(777).permutation(309)[:90].tolist()}
    assert {*both.choosing.names}.isdisjoint(both.calibrating.names)
    assert {*both.choosing.names, *both.calibrating.names} == names[1]


def test_false_alarms_are_held_on_games_that_were_not_seen(tmp_path: Path) -> None:
    file = read_rows(written(tmp_path / "games.jsonl", rows(300, seed=4)))
    new = games(1000, seed=5)

    monitor = train(file, None, LEAST.model_copy(update={"false_alarms": 0.2})).monitor

    alarms = new.highest(monitor.scores(new.columns))[~new.failed] > monitor.threshold
    assert alarms.mean() <= 0.2 + 0.1  # 54 games calibrate: a standard error of .055, about


def test_the_gain_in_the_file_is_that_of_the_threshold_in_the_file(tmp_path: Path) -> None:
    """A rate of false alarms chooses another threshold than the gain; the file once kept the gain of the latter."""
    file = read_rows(written(tmp_path / "games.jsonl", rows(300, seed=4)))

    found = train(file, None, LEAST.model_copy(update={"false_alarms": 0.05}))

    fitted, games, best = found.monitor.fitted, found.split.choosing, found.tried[0]
    above = games.highest(found.monitor.scores(games.columns)) > found.monitor.threshold
    assert fitted is not None and fitted.gain == pytest.approx(float(game_gains(games.failed) @ above))
    assert found.monitor.threshold > best.monitor.threshold and fitted.gain < best.triggered.gain


def test_uncertainty_that_foretells_failure_beats_chance_on_held_out_games(trained: Trained) -> None:
    found = evaluate_monitor(trained.monitor, games(200, seed=6))

    monitor, chance, _ = found.triggers
    assert found.games == 200 and chance.games == pytest.approx(monitor.games)
    assert monitor.gain > 0.12 and abs(chance.gain) < 0.02
    assert found.difference.value == pytest.approx(monitor.gain - chance.gain)
    assert found.difference.low > 0.08


def test_what_tells_nothing_gains_nothing() -> None:
    rng = np.random.default_rng(0)
    noise = [
        Row(game=game, turn=turn, role="r", features={"entropy": rng.random()}, failed=bool(game % 2))
        for game in range(400)
        for turn in range(5)
    ]
    half = 200 * 5
    parts = split(games_of(noise[:half]), LEAST)

    found = evaluate_monitor(tried(parts, LEAST)[0].monitor, games_of(noise[half:]))

    assert found.difference.low < 0 < found.difference.high


@each_row(
    ("content", "told"),
    [
        ({"format": 2}, "has format 2; this version reads 1; train the monitor again"),
        ({"coefficients": [1.0]}, "is not a monitor: bounds, exponents and coefficients do not fit the features"),
        ({"threshold": float("nan")}, "is not a monitor: threshold is nan: expected a finite number"),
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", "has format None"),
    ],
)
def test_a_file_that_is_no_monitor_of_this_version_is_refused(
    trained: Trained, tmp_path: Path, content: dict[str, Any] | str | None, told: str
) -> None:
    (path := tmp_path / "m.json").unlink(missing_ok=True)
    if isinstance(content, dict):
        content = json.dumps({**json.loads(trained.monitor.to_json()), **content})
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=told):
        Monitor.read(path)


def test_a_monitor_of_another_feature_set_is_refused(trained: Trained, tmp_path: Path) -> None:
    whole, top = Measure(positions="id"), Measure(positions="id", distribution="top")
    trained.monitor.model_copy(update={"measured": whole}).save(tmp_path / "m.json")

    assert Monitor.read(tmp_path / "m.json", whole).measured == whole
    with pytest.raises(UsageError, match="positions id, whole distributions; found positions id, top 10, as they are"):
        Monitor.read(tmp_path / "m.json", top)
    with pytest.raises(UsageError, match="needs feature 'entropy'; found kurtosis, turn; it is for another"):
        fit(games(20, 0), ("entropy", "turn"), 1, Training()).score({"kurtosis": 1.0}, 0)
    with pytest.raises(UsageError, match="a feature is not a finite number"):
        fit(games(20, 0), ("entropy", "turn"), 1, Training()).score({"entropy": float("nan")}, 0)


LINE = {"game": 1, "turn": 0, "role": "r", "features": {"entropy": 1}, "failed": True}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "is empty; expected a line of JSON for each turn"),
        ([[]], "line 1 of file of rows .*: found list; expected one JSON object"),
        ([{**LINE, "features": {"entropy": float("inf")}}], "line 1 .*features.entropy is inf: expected a finite"),
        ([LINE, {**LINE, "failed": False}], "game 1 failed in one row and not in another"),
        ([LINE, {**LINE, "question": "q"}], "game 1: question is q in one row and None in another"),
        ([LINE, {**LINE, "role": "s"}], "has rows of 2 roles; choose one: r, s"),
        ([LINE], "found 1 game of 1 question, role 'r'; expected at least 10 questions"),
        (
            [{**LINE, "game": n, "features": None, "failed": n % 2 == 0} for n in range(20)],
            "no turn of role 'r' has features; expected some",
        ),
    ],
)
def test_rows_that_cannot_be_trained_on_are_refused(tmp_path: Path, lines: list[Any], told: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines))

    with pytest.raises(UsageError, match=told):
        train(read_rows(path), None, Training())


def test_without_scikit_learn_training_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)

    with pytest.raises(UsageError, match="training needs the extra 'monitors': pip install"):
        tried(split(games(20, seed=0), Training()), Training())


def test_games_of_one_kind_tell_nothing_of_a_monitor(trained: Trained) -> None:
    found = games(50, seed=9)

    with pytest.raises(UsageError, match="games succeeded; expected both"):
        evaluate_monitor(trained.monitor, found.part(np.flatnonzero(~found.failed).tolist()))
