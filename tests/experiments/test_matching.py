"""Self-consistency at the cost of another row: its samples follow from that row's run, and stay when it goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from sottovoce.cli.experiment import report
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.experiments.matching import budget_notes
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.experiments.schema import Experiment
from sottovoce.runs.cost import computed_tokens
from sottovoce.runs.limits import Budget, Limits
from sottovoce.runs.run import Run

ROWS: dict[str, Any] = {
    "pair": {"scheme": "debate", "rounds": 2, "temperature": 0},
    "match": {"scheme": "self-consistency", "matched": {"row": "pair", "by": "tokens"}},
}
GIVEN: dict[str, Any] = {"questions": {"sample": "arithmetic/1", "limit": 2}, "rows": ROWS}


def read(rows: Any) -> Experiment:
    return Experiment.model_validate({**GIVEN, "rows": rows})


def held(folder: Path, rows: Any = ROWS, limits: Limits | None = None, **more: Any) -> tuple[dict[str, Run], str]:
    return run_experiment(read(rows), RowRunner(folder, limits), **more)


def tokens(runs: Iterable[Run]) -> list[float]:
    return [sum(map(computed_tokens, record.messages)) for run in runs for record in run.records.values()]


@pytest.mark.parametrize(
    ("target", "first", "further", "samples"),
    [(100, 10, 10, 10), (100, 40, 10, 7), (44, 10, 10, 4), (46, 10, 10, 5), (3, 10, 10, 1)],
)
def test_samples_come_nearest_to_the_target_and_further_ones_may_cost_less_than_the_first(
    target: float, first: float, further: float, samples: int
) -> None:
    assert Budget(row="a", by="tokens", target=target, first=first, further=further, questions=8).samples == samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an experiment that was held."""
    folder = tmp_path_factory.mktemp("matched")
    held(folder)
    return folder


def test_a_matched_row_costs_about_what_the_other_does_and_tells_its_budget(folder: Path) -> None:
    runs, why = held(folder)

    budget = runs["match"].manifest.budget
    assert why == "" and [*runs] == ["pair", "match"] and budget is not None
    assert runs["match"].manifest.settings["samples"] == budget.samples > 2
    assert budget.target == fmean(tokens([runs["pair"]]))
    assert fmean(tokens([runs["match"]])) == pytest.approx(budget.target, abs=budget.further)
    (note,) = budget_notes(runs)
    assert note.startswith(
        f"`match`: {budget.samples} samples per question, to cost as much as a discussion of `pair` ("
    )
    assert f"- {note}" in report(read(ROWS), runs)


def test_going_on_draws_as_many_samples_and_what_they_follow_from_must_be_the_same(folder: Path) -> None:
    before = held(folder)[0]["match"].manifest
    shutil.rmtree(folder / "match" / "payloads")
    (folder / "match" / "log.jsonl").unlink()

    again = held(folder)[0]["match"].manifest

    assert (again.budget, again.settings) == (before.budget, before.settings)
    longer = {**ROWS, "pair": {**ROWS["pair"], "rounds": 4}}
    shutil.copytree(folder, there := folder.parent / "longer")
    shutil.rmtree(there / "pair")
    held(there, longer, names=["pair"])
    with pytest.raises(RecordError, match=r"row 'match' was started with other settings \(samples \d+, now \d+\)"):
        held(there, longer)


def test_the_matched_row_must_be_over_and_a_limit_counts_the_pilot(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="row 'match' is matched to 'pair', which is not over; run that first"):
        held(tmp_path, names=["match"])
    assert not [*tmp_path.iterdir()]

    runs, why = held(tmp_path, limits=Limits(call_limit=9, at_once=1))

    assert why.startswith("the call limit is reached") and [*runs] == ["pair"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({**ROWS, "match": {**ROWS["match"], "samples": 3}}, "row 'match': samples follow from the row that it is m"),
        ({**ROWS, "match": {**ROWS["match"], "matched": {"row": "par"}}}, "unknown row in 'matched' of 'match' 'par'"),
        (dict(reversed(ROWS.items())), "row 'match' is matched to 'pair', which is not before it"),
        ({**ROWS, "match": {"scheme": "single", "matched": {"row": "pair"}}}, "row 'match': single cannot be matched"),
        ({**ROWS, "match": {**ROWS["match"], "matched": {"row": "pair", "by": "time"}}}, "by is 'time': expected 'fl"),
        ({**ROWS, "match": {**ROWS["match"], "matched": {"rwo": "pair"}}}, "unknown key of matched 'rwo'"),
    ],
)
def test_a_row_that_cannot_be_matched_is_refused_by_name(rows: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(rows)
    assert said in str(caught.value) and "\n" not in str(caught.value)
