"""Searches of temperatures and layers: by optuna, saved as runs, and repeated from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from langchain_core.outputs import ChatResult

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import RecordError, SottovoceError, UsageError
from sottovoce.datasets.arithmetic import questions
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
    assert {path.name for path in (tmp_path / "parts" / "runs").iterdir()} == {
        path.name for path in (tmp_path / "whole" / "runs").iterdir()
    }


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"of": row("single")}, "single has 1 agent that discusses"),
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


class Scripted:
    """A search whose layers score by themselves: the best one 1, others little."""

    def __init__(self, best: int) -> None:
        self.best, self.asked = best, dict[int, list[Question]]()
        self.row = Row("", "debate", scheme("debate").settings(), questions(160, 0), [0], None)

    def ask(self, name: str, asked: Sequence[Question], layers: tuple[int]) -> list[Any]:
        self.asked.setdefault(layers[0], []).extend(asked)
        return [(layers[0], place) for place, _ in enumerate(asked)]

    def optimize(self, study: Any, objective: Any, trials: int) -> Any:
        study.optimize(objective, n_trials=trials)
        return study


def test_halving_asks_fewer_questions_and_finds_a_clearly_better_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    for best in (0, 5, 11):
        search: Any = Scripted(best)
        monkeypatch.setattr(searches, "_layers", lambda settings: (13, (6,)))
        monkeypatch.setattr(
            searches, "_scored", lambda each, best=best: (1.0 if each[0] == best else each[0] / 50, None)
        )

        study = layers(search, halving=True)

        ranked = max(study.trials, key=lambda trial: (len(trial.user_attrs["scores"]), trial.value))
        assert ranked.params["layer"] == best
        assert [trial.params["layer"] for trial in study.trials][:3] == [6, 5, 7] and len(study.trials) == 12
        counts = [len(asked) for asked in search.asked.values()]
        assert sum(counts) < 0.7 * 12 * 160 and min(counts) == 10 and search.asked[best] == search.row.questions
        assert fmean(study.best_trial.user_attrs["scores"]) == study.best_value
