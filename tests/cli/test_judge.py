"""Tests of `runs judge`: a tiny model judges a scripted run, and tables show how far raters agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.analysis.scorers import agreements, kappa
from sottovoce.channels.store import PayloadStore
from sottovoce.runs.run import load_run
from tests.cli.conftest import Call, Models
from tests.runs.single import run_one
from tests.runs.support import task


@pytest.fixture
def run(tmp_path: Path) -> Path:
    said = {"agent_1": ["The answer is 22."], "agent_2": ["The answer is 22."]}
    run_one(task(said), PayloadStore(tmp_path / "payloads"), folder=tmp_path / "run")
    return tmp_path / "run"


def test_verdicts_are_saved_and_shown(call: Call, models: Models, run: Path) -> None:
    (question,) = load_run(run).questions()
    first = call("runs", "judge", run, "--model", models.tiny)
    again = call("runs", "judge", run, "--model", models.tiny)

    assert (first.code, again.code, first.out) == (0, 0, again.out), first.err
    assert "| ours and judge | 1 | " in first.out
    (shown,) = load_run(run / "judged").questions()
    assert "Right answer: 22\nGiven answer: 22\n" in shown["question"] and question["question"] in shown["question"]
    (record,) = load_run(run / "judged").records.values()
    assert record.cost.calls <= 2 and record.decision is not None and record.decision["answer"] in ("yes", "no")
    (result,) = load_run(run).results()
    assert result.measures == {"judged": float(record.decision["answer"] == "yes")}
    other = call("runs", "judge", run, "--model", models.other_weights)
    assert other.code == 1 and "was started with other settings" in other.err


def test_agreement_is_over_the_answers_that_both_judged() -> None:
    ours = {("a", 0): True, ("b", 0): False, ("c", 0): True}
    (found,) = agreements({"ours": ours, "judge": {("b", 0): False, ("c", 0): False, ("d", 0): True}})
    assert (found.left, found.right, found.n, found.same.value, found.kappa) == ("ours", "judge", 2, 0.5, 0)


def test_kappa_takes_off_what_chance_makes() -> None:
    yes_yes, yes_no, no_yes, no_no = (True, True), (True, False), (False, True), (False, False)
    # Cohen's own form: 20, 5, 10, 15 of 50 agree by 0.7, by chance 0.5.
    assert kappa([yes_yes] * 20 + [yes_no] * 5 + [no_yes] * 10 + [no_no] * 15) == pytest.approx(0.4)
    assert kappa([yes_yes] * 3) is None
