"""Searches of temperatures: saved, resumed as if uninterrupted, with a validation part, in both orders."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from langchain_core.outputs import ChatResult

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.analysis.statistics import Mean, share
from sottovoce.cli.search import trials_table
from sottovoce.core.errors import RecordError, SottovoceError, UsageError
from sottovoce.datasets.arithmetic import questions
from sottovoce.experiments.rows import Row
from sottovoce.experiments.search.layers import Rung, halving, search
from sottovoce.experiments.search.plots import bars, span_of
from sottovoce.experiments.search.study import Study
from sottovoce.experiments.search.tune import Space, Trial, Tuned, split, tune
from sottovoce.graphs import scheme
from sottovoce.nodes.question import Question
from sottovoce.runs.limits import Limits

ASKED: list[Question] = [{"id": f"q{n}", "question": f"What is {n} + 0?", "target": "7"} for n in range(4)]
BEST = {"agent_1": 0.4, "agent_2": 1.2}


class Warm(ScriptedChatModel):
    """An agent is right where its temperature is nearer than 0.3 to its best one."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        agent = run_manager.metadata["agent"]
        right = abs(kwargs["temperature"] - BEST.get(agent, 9)) < 0.3
        self.replies[agent] = [f"The answer is {7 if right else 8}."]  # the other agent's may be read meanwhile
        return super()._generate(messages, stop, run_manager, **kwargs)


def row(name: str = "debate", **settings: Any) -> Row:
    few = {"rounds": 1} if name != "single" else {}
    made = scheme(name).settings.model_validate({**few, "answer_turn": "off", **settings})
    return Row("", name, made, ASKED, [0], "four questions")


def tuned(folder: Path, *, limits: Limits | None = None, part: float | None = None, **more: Any) -> Tuned:
    space = Space(more.get("low", 0.05), more.get("high", 1.5), more.get("grid"), more.get("trials", 6))
    study = Study(folder, limits or Limits(at_once=1), models=Warm())
    objective, wants_map = more.get("objective", "first"), more.get("wants_map", False)
    return tune(study, more.get("of", row()), space, objective, part, wants_map=wants_map)


def runs_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "runs").iterdir())


@pytest.mark.slow
def test_the_search_finds_temperatures_at_which_the_objective_is_reached(tmp_path: Path) -> None:
    found = tuned(
        tmp_path, of=replace(row(), questions=ASKED[:1]), trials=11
    )  # the last by what ten at random were worth

    assert found.best.first is not None and found.best.first.value == 1
    assert abs(found.best.temperatures[0] - BEST["agent_1"]) < 0.3
    assert all(0.05 <= value <= 1.5 for trial in found.trials for value in trial.temperatures)
    assert runs_in(tmp_path) == sorted(f"trial-{n}" for n in range(11))


def test_a_resumed_search_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = tuned(tmp_path / "whole", trials=3)
    with pytest.raises(SottovoceError, match=r"the call limit is reached: .*; run the same command to continue"):
        tuned(tmp_path / "parts", trials=2, limits=Limits(call_limit=11, at_once=1))  # in the middle of the second
    assert tuned(tmp_path / "parts", trials=2).trials == whole.trials[:2]

    assert tuned(tmp_path / "parts", trials=3) == whole
    assert (tmp_path / "parts" / "tune.json").read_bytes() == (tmp_path / "whole" / "tune.json").read_bytes()


class Silent(Space):
    """A space that proposes nothing, as if another version of optuna proposed other temperatures."""

    def propose(self, speakers: Any, results: Any, seed: int) -> tuple[float, ...]:
        raise AssertionError("a trial that has started keeps its temperatures")


def test_trials_that_have_started_keep_their_temperatures(tmp_path: Path) -> None:
    before = tuned(tmp_path, trials=2)

    study = Study(tmp_path, models=Warm())
    assert tune(study, row(), Silent(0.05, 1.5, None, 2), "first", None, wants_map=False) == before


def test_the_best_trial_is_tested_once_on_held_out_questions(tmp_path: Path) -> None:
    found = tuned(tmp_path, trials=2, part=0.5)

    kept = json.loads((tmp_path / "study.json").read_text())
    _, unseen = split(ASKED, 0.5, 0)
    assert kept["search"]["held_out"] == [each["id"] for each in unseen]
    assert (found.validation, found.held_out_questions) == (2, 2)
    assert found.held_out is not None and found.held_out.temperatures == found.best.temperatures
    assert runs_in(tmp_path) == [f"held-out-{found.best.name}", "trial-0", "trial-1"]
    with pytest.raises(UsageError, match=r"was started with different search \(trials 2, now 4\)"):
        tuned(tmp_path, trials=4, part=0.5)


def test_the_parts_are_drawn_from_the_seed_and_share_nothing() -> None:
    asked = questions(20, 0)
    seen, unseen = split(asked, 0.25, 3)

    assert len(seen) == 5 and sorted([*seen, *unseen], key=asked.index) == asked
    assert (seen, unseen) == split(asked, 0.25, 3) != split(asked, 0.25, 4)
    assert split(asked, None, 0) == (asked, [])


def test_a_square_grid_has_both_orders_already(tmp_path: Path) -> None:
    found = tuned(tmp_path, low=0.4, high=1.2, grid=2, wants_map=True)

    assert [(point.temperatures, point.first.value, point.swapped.value) for point in found.map] == [
        ((0.4, 0.4), 1, 1), ((0.4, 1.2), 1, 0), ((1.2, 0.4), 0, 1), ((1.2, 1.2), 0, 0),
    ]  # fmt: skip
    assert runs_in(tmp_path) == ["grid-0", "grid-1", "grid-2", "grid-3"]
    with (tmp_path / "map.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(line["first_temperature"], line["second_temperature"], line["swapped"]) for line in rows[1:3]] == [
        ("0.4", "1.2", "0.0000"), ("1.2", "0.4", "1.0000"),
    ]  # fmt: skip
    assert "<svg" in (tmp_path / "map.svg").read_text()


def test_a_map_has_each_pair_in_both_orders(tmp_path: Path) -> None:
    found = tuned(tmp_path, trials=2, wants_map=True)

    assert runs_in(tmp_path) == ["trial-0", "trial-0-swapped", "trial-1", "trial-1-swapped"]
    first, second = found.map[0].temperatures
    swapped = abs(second - BEST["agent_1"]) < 0.3
    assert found.map[0].swapped.value == float(swapped) and first != second


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"of": row("single")}, "single has 1 agent that discusses"),
        ({"of": row(temperature=[0.5])}, "--temperature was given, but temperatures are searched"),
        ({"low": 1.0, "high": 0.5}, "searched from 1 to 0.5; expected 0 <= from < to"),
        ({"low": -1.0}, "expected 0 <= from < to"),
        ({"low": 0.055}, "searched from 0.055 to 1.5; expected hundredths"),
        ({"low": 0.1, "high": 0.12, "grid": 5}, "--grid 5 is finer than hundredths from 0.1 to 0.12"),
        ({"of": row(agents=3), "wants_map": True}, "a temperature map needs two agents, and 3 discuss"),
        ({"part": 0.01}, "a validation part of 0.01 of 4 questions leaves one part empty"),
    ],
)  # fmt: skip
def test_an_invalid_search_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as error:
        tuned(tmp_path / "new", **change)

    assert told in str(error.value) and "\n" not in str(error.value)


def test_questions_without_a_target_are_refused_before_the_search(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="question 'q9' has no target"):
        tuned(tmp_path / "new", of=Row("", "debate", row().settings, [{"id": "q9", "question": "?"}], [0], None))


def test_another_folder_is_refused(tmp_path: Path) -> None:
    tuned(tmp_path / "mine", trials=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()

    with pytest.raises(UsageError, match=r"was started with different settings \(seed 0, now 1\); restore that"):
        tuned(tmp_path / "mine", of=row(seed=1))
    with pytest.raises(UsageError, match=r"was started with different search \(from 0.05, now 0.1\)"):
        tuned(tmp_path / "mine", low=0.1)
    with pytest.raises(UsageError, match="contains something other than a search"):
        tuned(tmp_path / "other")
    (tmp_path / "mine" / "study.json").write_text("{")
    with pytest.raises(RecordError, match=r"study.json' is damaged"):
        tuned(tmp_path / "mine")


@pytest.fixture
def global_state() -> Iterator[None]:
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before


def test_the_same_ranking_is_drawn_in_the_same_bytes(tmp_path: Path, global_state: None) -> None:
    layers = {0: Mean(0.5, None, None), 1: Mean(1.0, 0.7, 1.0 - 1e-16)}  # an upper bound that rounding put below
    for name in ("one.svg", "two.svg"):
        bars(tmp_path / name, layers, 1, "accuracy")

    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "layer (0-based)" in (tmp_path / "one.svg").read_text()


@pytest.mark.parametrize(
    ("shares", "ends"),
    [([1.0, 1.0], (0.9, 1.0)), ([0.0], (0.0, 0.1)), ([0.5] * 9, (0.4, 0.5)), ([0.31, 0.72], (0.3, 0.75))],
)
def test_a_color_bar_stays_within_shares_and_has_a_length(shares: list[float], ends: tuple[float, float]) -> None:
    assert span_of(shares) == pytest.approx(ends)


def test_equally_good_trials_are_named() -> None:
    right = share([1.0, 0.0], ["a", "b"])
    trials = tuple(Trial(f"grid-{n}", (0.1 * n, 0.2), right, right) for n in range(9))

    told = trials_table(Tuned(trials, trials[0], 2, None, 0, ()), "decision")

    assert "9 of 9 trials are equally good on these questions: grid-0, grid-1, grid-2, " in told


# Successive halving, with scripted scores


@pytest.mark.parametrize(("candidates", "questions"), [(2, 40), (3, 100), (5, 600), (13, 300), (29, 300)])
def test_rungs_spend_a_tenth_at_most_and_almost_all_of_it(candidates: int, questions: int) -> None:
    plan = halving(candidates, questions)

    budget = candidates * questions // 10
    assert budget - 2 < sum(rung.candidates * len(rung.questions) for rung in plan) <= budget
    assert plan[0].candidates == candidates and plan[-1].candidates == 2
    assert all(later.candidates == -(-former.candidates // 2) for former, later in pairwise(plan))


def test_rungs_ask_new_questions_and_never_more_than_there_are() -> None:
    for candidates in range(2, 100):
        places = [place for rung in halving(candidates, 200) for place in rung.questions]

        assert places == [*range(len(places))] and len(places) <= 200


def test_a_clearly_better_layer_is_found_wherever_it_stands() -> None:
    for best in range(13):
        rng = random.Random(best)

        def ask(rung: int, layer: int, places: range, best: int = best, rng: random.Random = rng) -> list[float]:
            return [float(rng.random() < (0.95 if layer == best else 0.3)) for _ in places]

        ranked, scores = search(halving(13, 600), range(13), ask)

        assert ranked[0] == best and sorted(ranked) == [*range(13)]
        assert len(scores[best]) == max(map(len, scores.values()))


def test_a_rung_has_the_same_new_questions_for_all_candidates() -> None:
    asked: list[tuple[int, int, range]] = []

    def ask(rung: int, layer: int, places: range) -> list[float]:
        asked.append((rung, layer, places))
        return [layer / 10] * len(places)

    search(halving(5, 100), range(5), ask)
    ranked, _ = search(halving(5, 100), [3, 4, 2, 1, 0], lambda rung, layer, places: [0.5] * len(places))

    assert ranked == [3, 4, 2, 1, 0], "of equal candidates the first survive"

    assert [(rung, layer) for rung, layer, _ in asked] == [
        *((0, layer) for layer in range(5)), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4),
    ]  # fmt: skip
    assert {rung: {places for each, _, places in asked if each == rung} for rung in range(3)} == {
        rung: {halving(5, 100)[rung].questions} for rung in range(3)
    }


def test_an_exhaustive_search_gives_every_candidate_every_question() -> None:
    ranked, scores = search(
        [Rung(3, range(4))], range(3), lambda rung, layer, places: [float(layer == 1)] * len(places)
    )

    assert ranked == [1, 0, 2] and scores == {0: [0] * 4, 1: [1] * 4, 2: [0] * 4}


@pytest.mark.parametrize(("candidates", "questions", "least"), [(5, 29, 30), (29, 10, 50), (2, 9, 10)])
def test_too_few_questions_are_refused_and_the_number_that_is_named_is_enough(
    candidates: int, questions: int, least: int
) -> None:
    with pytest.raises(UsageError, match=f"{questions} questions are too few .* give at least {least}, or"):
        halving(candidates, questions)

    assert len(halving(candidates, least)[0].questions) == 1
    with pytest.raises(UsageError, match="there is 1 layer to choose from; expected at least 2"):
        halving(1, least)
