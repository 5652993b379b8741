"""Tests of `runs judge`: a tiny model judges a scripted run, and tables show how far raters agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.analysis.scorers import agreements, kappa
from sottovoce.analysis.statistics import share
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.question import Question
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, judge_runs, load_run
from sottovoce.runs.runner import resume_run, run_all
from tests.cli.conftest import Call, Models
from tests.runs.single import run_one
from tests.runs.support import QUESTION, task


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


def test_a_run_that_was_judged_in_part_is_judged_on_and_by_another_model_beside_the_first(
    call: Call, models: Models, tmp_path: Path
) -> None:
    """Both were refused: the run of the judge "was started with other questions", or other settings."""
    folder, settings = tmp_path / "run", Debate(agents=1, rounds=1)
    questions: list[Question] = [{**QUESTION, "id": id} for id in "ab"]
    replies = {"agent_1": ["The answer is 22."]}  # and nothing on the second question
    scripted = ScriptedChatModel(replies)
    run = Run.start(new_manifest("debate", settings, questions, models=scripted), questions, folder)
    run_all(run, settings, run.store(), models=scripted, limits=Limits(at_once=1))
    first = call("runs", "judge", folder, "--model", models.tiny)
    scripted = ScriptedChatModel(replies)
    run_all(resume_run(load_run(folder), models=scripted), settings, run.store(), models=scripted)
    further = call("runs", "judge", folder, "--model", models.tiny)
    other = call("runs", "judge", folder, "--model", models.other_weights)

    assert (first.code, further.code, other.code) == (0, 0, 0), first.err + further.err + other.err
    asked = [[each["id"] for each in judge.questions()] for judge in judge_runs(folder)]
    assert asked == [["0:a"], ["0:b"], ["0:a", "0:b"]]
    assert "| ours and judge | 1 | " in first.out and "| ours and judge | 2 | " in further.out
    assert f"| judge and judge by {models.other_weights} | 2 | " in other.out
    assert [[*result.measures] for result in load_run(folder).results()] == [
        ["judged", f"judged by {models.other_weights}"]
    ] * 2
    # one question under two ids: the interval is that of one
    interval = share([1.0, 1.0], ["a", "a"])
    assert f"| ours | 2 | 100.0% | {100 * interval.low:.1f}% to 100.0% |" in further.out


def test_agreement_is_over_the_answers_that_both_judged() -> None:
    ours = {("a", 0): True, ("b", 0): False, ("c", 0): True}
    (found,) = agreements(
        {"ours": ours, "judge": {("b", 0): False, ("c", 0): False, ("d", 0): True}},
        dict(zip("abcd", "abcd", strict=True)),
    )
    assert (found.left, found.right, found.n, found.same.value, found.kappa) == ("ours", "judge", 2, 0.5, 0)


def test_kappa_takes_off_what_chance_makes() -> None:
    yes_yes, yes_no, no_yes, no_no = (True, True), (True, False), (False, True), (False, False)
    # Cohen's own form: 20, 5, 10, 15 of 50 agree by 0.7, by chance 0.5.
    assert kappa([yes_yes] * 20 + [yes_no] * 5 + [no_yes] * 10 + [no_no] * 15) == pytest.approx(0.4)
    assert kappa([yes_yes] * 3) is None
