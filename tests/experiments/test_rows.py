"""Baselines at equal cost: self-consistency's samples follow from another row's run, and a run has two baselines."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.cli.experiment import findings_of
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.experiments.rows import Row, baseline_settings, baselines, budget_notes, with_pilots
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.experiments.schema import Experiment, Matched
from sottovoce.graphs import scheme
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.madra import MADRA
from sottovoce.graphs.self_consistency import SelfConsistency
from sottovoce.graphs.single import Single
from sottovoce.nodes.context import Models
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.report.tables import markdown
from sottovoce.runs.cost import computed_tokens
from sottovoce.runs.limits import Budget, Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from tests.datasets.test_question_files import SUMS, lines

ROWS: dict[str, Any] = {
    "pair": {"scheme": "debate", "rounds": 2, "temperature": 0},
    "match": {"scheme": "self-consistency", "matched": {"row": "pair", "by": "tokens"}},
}
GIVEN: dict[str, Any] = {"questions": {"sample": "arithmetic/1", "limit": 2}, "rows": ROWS}


def read(rows: Any) -> Experiment:
    return Experiment.model_validate({**GIVEN, "rows": rows})


def run_rows(
    folder: Path, rows: Any = ROWS, limits: Limits | None = None, models: Models = None, **more: Any
) -> tuple[dict[str, Run], str]:
    return run_experiment(read(rows), RowRunner(folder, limits, models=models), **more)


def tokens(runs: Iterable[Run]) -> list[float]:
    return [sum(map(computed_tokens, record.messages)) for run in runs for record in run.records.values()]


def test_a_pilot_asks_eight_different_questions() -> None:
    sums: list[Question] = [{"id": f"q{n}", "question": f"{n % 10} + 2?", "target": str(n % 10 + 2)} for n in range(20)]
    row = Row("match", "self_consistency", SelfConsistency(), sums, [0], None, Matched(row="pair"))
    pilot = with_pilots([row])["match/pilot"]
    assert [each["id"] for each in pilot.questions] == [f"q{n}" for n in range(8)]
    doubled = with_pilots([replace(row, questions=[*sums[:3], *sums[10:13]])])["match/pilot"]
    assert len(doubled.questions) == 3


@pytest.mark.parametrize(("target", "first", "further", "samples"), [(100, 40, 10, 7), (46, 10, 10, 5), (3, 10, 10, 1)])
def test_samples_come_nearest_to_the_target_and_further_ones_may_cost_less_than_the_first(
    target: float, first: float, further: float, samples: int
) -> None:
    costs = {"target": target, "first": first, "further": further}
    assert Budget(row="a", settings="", by="tokens", questions=8, **costs).samples == samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished experiment."""
    folder = tmp_path_factory.mktemp("matched")
    run_rows(folder)
    return folder


def test_a_matched_row_costs_about_as_much_as_the_other_and_notes_its_budget(folder: Path) -> None:
    runs, why = run_rows(folder)
    budget = runs["match"].manifest.budget
    assert why == "" and [*runs] == ["pair", "match"] and budget is not None
    assert runs["match"].manifest.settings["samples"] == budget.samples > 2
    assert budget.target == fmean(tokens([runs["pair"]]))
    assert fmean(tokens([runs["match"]])) == pytest.approx(budget.target, abs=budget.further)
    (note,) = budget_notes(runs)
    assert note.startswith(f"`match`: {budget.samples} samples per question, to cost as much as a discussion of `pair`")
    assert f"- {note}" in markdown(*findings_of(read(ROWS), runs).parts)


def test_a_resumed_row_draws_as_many_samples_and_its_pilot_must_be_the_same(folder: Path) -> None:
    before = run_rows(folder)[0]["match"].manifest
    shutil.rmtree(folder / "match" / "payloads")
    (folder / "match" / "log.jsonl").unlink()

    again = run_rows(folder)[0]["match"].manifest

    assert (again.budget, again.settings) == (before.budget, before.settings)
    longer = {**ROWS, "pair": {**ROWS["pair"], "rounds": 4}}
    shutil.copytree(folder, there := folder.parent / "longer")
    shutil.rmtree(there / "pair")
    run_rows(there, longer, names=["pair"])
    with pytest.raises(RecordError, match=r"row 'match' was started with other settings \(samples \d+, now \d+\)"):
        run_rows(there, longer)


def test_the_matched_row_must_be_over_and_a_limit_counts_the_pilot(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="row 'pair' is not over, so its cost is unknown; run it again, before rows"):
        run_rows(tmp_path, names=["match"])
    assert not [*tmp_path.iterdir()]
    runs, why = run_rows(tmp_path, limits=Limits(call_limit=9, at_once=1))
    assert why.startswith("the call limit is reached") and [*runs] == ["pair"]


def test_a_row_waits_while_the_other_has_failures_and_further_rows_run(tmp_path: Path) -> None:
    """The cost was that of the questions that did not fail: another one when they were asked again."""
    lines(tmp_path, SUMS[0], {"question": "word " * 5000, "target": "5"})
    rows = {**ROWS, "after": {"scheme": "single"}}
    given = {"questions": {"file": str(tmp_path / "q.jsonl")}, "rows": rows}
    runs, why = run_experiment(Experiment.model_validate(given), RowRunner(tmp_path / "kept"))
    assert why.startswith("row 'pair' has 1 failed discussion, so its cost is unknown; run it again, before rows that")
    assert [*runs] == ["pair", "after"] and not (tmp_path / "kept" / "match").exists()
    with pytest.raises(UsageError, match="run 'pair' has 1 failed discussion, so its cost is unknown; `sottovoce runs"):
        baselines("pair", runs["pair"], "tokens")


def test_a_budget_stays_when_discussions_of_the_other_row_run_again(folder: Path, tmp_path: Path) -> None:
    """The row was "started with other settings": another number of samples."""
    pair = load_run(shutil.copytree(folder, tmp_path / "kept") / "pair")
    pair.resume()
    for key in pair.records:
        pair.restart(key)
        pair.fail(key, "the server is busy", 1.0)
    pair.close()

    runs, why = run_rows(tmp_path / "kept", names=["match"])

    assert why == "" and runs["match"].manifest == load_run(folder / "match").manifest
    flops = {**ROWS, "match": {**ROWS["match"], "matched": {"row": "pair"}}}
    with pytest.raises(UsageError, match="row 'pair' has 2 failed discussions"):
        run_rows(tmp_path / "kept", flops, names=["match"])


@pytest.mark.parametrize(("by", "remedy"), [("flops", "match by tokens"), ("tokens", "give a number of samples")])
def test_a_row_whose_server_reported_no_tokens_is_refused_before_a_pilot(tmp_path: Path, by: str, remedy: str) -> None:
    """Their number was 0."""
    rows = {**ROWS, "match": {"scheme": "self-consistency", "matched": {"row": "pair", "by": by}}}
    with pytest.raises(UsageError, match=f"row 'pair' ran on hosted models that reported no {by}, .*; {remedy}"):
        run_rows(tmp_path, rows, models=ScriptedChatModel(["The answer is 7."] * 99))
    assert not (tmp_path / "match").exists()


def test_a_row_that_costs_nothing_cannot_be_matched(tmp_path: Path) -> None:
    """Experts state the solution without a model; this once ended in a ZeroDivisionError."""
    rows = {**ROWS, "pair": {"scheme": "debate", "rounds": 1, "role": "expert"}}
    with pytest.raises(UsageError, match=r"a discussion of 'pair' took 0 tokens, and a sample .* expected more than 0"):
        run_rows(tmp_path, rows)


# Baselines of a run

QUESTIONS: list[Question] = [{"question": "What is 1 + 1?", "id": "sum"}]


def run_of(name: str, settings: Settings) -> Run:
    return Run(new_manifest(name, settings, QUESTIONS, models={}), QUESTIONS)


def chosen(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(exclude_unset=True)


def test_a_baseline_takes_over_the_settings_of_a_single_agent_and_gets_the_same_evidence() -> None:
    settings = Debate(model=["smollm2"] * 2, temperature=[0.3, 0.6], max_tokens=9, cap=3, top_p=0.5, rounds=7)
    shared = {"model": ["smollm2"], "max_tokens": 9, "top_p": 0.5}
    assert chosen(baseline_settings(run_of("debate", settings), Single)) == shared
    evidence = {"source": "all", "n_wiki": 3, "model": ["smollm2"]}  # `single` has another default model
    assert chosen(baseline_settings(run_of("madra", MADRA(n_wiki=3)), Single)) == evidence


@pytest.mark.parametrize(
    ("protocol", "temperature", "kind", "expected"),
    [
        ("nl", 0.4, SelfConsistency, [0.4]),
        ("nl", 0, SelfConsistency, []),  # all samples would be one
        ("cipher", 0.4, Single, []),  # of means
    ],
)
def test_a_baseline_takes_over_the_temperature_if_words_are_sampled_at_it(
    protocol: str, temperature: float, kind: type[Settings], expected: list[float]
) -> None:
    baseline = baseline_settings(run_of("debate", Debate(protocol=protocol, temperature=[temperature])), kind)
    assert (baseline.protocol, baseline.temperature) == ("nl", expected)


def test_runs_without_a_baseline_are_refused() -> None:
    with pytest.raises(UsageError, match=r"agents have several models \(a, b\); no single agent stands for them"):
        baseline_settings(run_of("debate", Debate(model=["a", "b"])), scheme("single").settings)
    with pytest.raises(UsageError, match="run 'sums' is not over, so its cost is unknown; `sottovoce runs resume "):
        baselines("sums", run_of("debate", Debate()), "flops")
