"""Searches of temperatures and layers: by optuna, saved as runs, and repeated from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from langchain_core.outputs import ChatResult

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import RecordError, SottovoceError, UsageError
from sottovoce.datasets.arithmetic import made_arithmetic
from sottovoce.experiments import search as searches
from sottovoce.experiments.rows import Row
from sottovoce.experiments.search import Search, layers, tune
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


def tuned(folder: Path, *, limits: Limits | None = None, **more: Any) -> Any:
    low, high, grid = more.get("low", 0.05), more.get("high", 1.5), more.get("grid")
    search = Search(folder, more.get("of", row()), limits or Limits(at_once=1), models=Warm())
    return tune(search, low, high, grid, more.get("trials", 6))


def params_of(study: Any) -> list[tuple[float, ...]]:
    return [tuple(trial.params.values()) for trial in study.trials]


def test_a_grid_finds_temperatures_at_which_the_objective_is_reached(tmp_path: Path) -> None:
    study = tuned(tmp_path, low=0.4, high=1.2, grid=2)
    values = {params: trial.value for params, trial in zip(params_of(study), study.trials, strict=True)}
    assert values == {(0.4, 0.4): 1, (0.4, 1.2): 1, (1.2, 0.4): 0, (1.2, 1.2): 0}
    assert (tmp_path / "runs" / "trial-0.4-1.2").is_dir() and not [*tmp_path.glob("runs/*/payloads")]
    assert (tmp_path / "trials.csv").read_text().startswith("number,value,params_agent_1,params_agent_2,state\n")
    assert "<svg" in (tmp_path / "trials.svg").read_text()


def test_a_resumed_search_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = tuned(tmp_path / "whole", trials=3)
    with pytest.raises(SottovoceError, match="the call limit is reached"):
        tuned(tmp_path / "parts", trials=3, limits=Limits(call_limit=11, at_once=1))  # in the middle of the second
    again = tuned(tmp_path / "parts", trials=3)
    assert params_of(again) == params_of(whole) and again.best_value == whole.best_value
    parts, all_at_once = ({path.name for path in (tmp_path / name / "runs").iterdir()} for name in ("parts", "whole"))
    assert parts == all_at_once


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"of": row("single")}, "the number of agents that discuss in single is 1; expected at least 2"),
        ({"of": row(temperature=[0.5])}, "--temperature was given, but temperatures are searched"),
        ({"low": 1.0, "high": 0.5}, "searched from 1 to 0.5; expected 0 <= from < to"),
        ({"of": Row("", "debate", row().settings, [{"id": "q9", "question": "?"}], [0], None)}, "'q9' has no target"),
    ],
)
def test_an_invalid_search_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError) as refused:
        tuned(tmp_path / "new", **change)
    assert error in str(refused.value) and "\n" not in str(refused.value)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    tuned(tmp_path / "mine", trials=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "experiment.yaml").touch()
    with pytest.raises(RecordError, match=r"was started with other settings \(rounds 1, now 2\)"):
        tuned(tmp_path / "mine", of=row(rounds=2), trials=1)
    with pytest.raises(UsageError, match="is the folder of an experiment"):
        tuned(tmp_path / "other")


class Scripted(Search):
    """A search whose layers score by themselves, by the layer and the place of the question."""

    def __init__(self, asked: list[Question]) -> None:
        super().__init__(Path("none"), replace(row(), questions=asked))
        self.asked = defaultdict[int, list[Question]](list)

    def ask(self, name: str, questions: Sequence[Question], **settings: Any) -> list[Any]:
        (layer,) = settings["layers"]
        self.asked[layer] += questions
        return [(layer, place) for place in range(len(self.asked[layer]) - len(questions), len(self.asked[layer]))]

    def optimize(self, study: Any, objective: Any, trials: int) -> Any:
        study.optimize(objective, n_trials=trials)
        return study


@pytest.fixture
def halved(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Halving among 12 layers, the seventh first, that score as a function says."""

    def halve(search: Scripted, score: Callable[[int, int], float]) -> Any:
        monkeypatch.setattr(searches, "_layers", lambda settings: (13, (6,)))
        monkeypatch.setattr(searches, "_scored", lambda each: (score(*each), None))
        return layers(search, halving=True)

    return halve


def test_halving_asks_fewer_questions_and_finds_a_clearly_better_layer(halved: Callable[..., Any]) -> None:
    for best in (0, 5, 11):
        search = Scripted(made_arithmetic("arithmetic", 160, 0))
        study = halved(search, lambda layer, place, best=best: 1.0 if layer == best else layer / 50)
        ranked = max(study.trials, key=lambda trial: (len(trial.user_attrs["scores"]), trial.value))
        assert ranked.params["layer"] == best
        assert [trial.params["layer"] for trial in study.trials][:3] == [6, 5, 7] and len(study.trials) == 12
        counts = [len(asked) for asked in search.asked.values()]
        assert sum(counts) < 0.7 * 12 * 160 and min(counts) == 10 and search.asked[best] == search.row.questions
        assert fmean(study.best_trial.user_attrs["scores"]) == study.best_value


def test_a_score_of_few_questions_is_not_compared_with_one_of_all(halved: Callable[..., Any]) -> None:
    """Two layers begin with 1 and end with 1/8 and 1/16 of all; the others have 1/8 from the start, and are stopped."""
    right = {6: {*range(10), *range(150, 160)}, 0: {*range(10)}}
    study = halved(
        Scripted(made_arithmetic("arithmetic", 160, 0)),
        lambda layer, at: at in right[layer] if layer in right else 1 / 8,
    )
    whole = {trial.params["layer"]: trial.value for trial in study.trials if trial.state.name == "COMPLETE"}
    assert whole == {6: 1 / 8, 0: 1 / 16} and {trial.value for trial in study.trials[1:-1]} == {1 / 8}
    assert [trial.params["layer"] for trial in study.best_trials] == [6]


def test_halving_takes_parts_of_questions_whatever_their_ids(halved: Callable[..., Any]) -> None:
    copies: list[Question] = [
        {**each, "id": f"{n}-{each['id']}"} for n in range(5) for each in made_arithmetic("arithmetic", 16, 0)
    ]
    search = Scripted(copies)
    halved(search, lambda layer, place: float(layer == 6))
    assert [len({each["question"] for each in search.asked[at]}) for at in (6, 5)] == [16, 1]
    assert [len(search.asked[at]) for at in (6, 5)] == [80, 5] and [*Counter(search.clusters).values()] == [5] * 16
