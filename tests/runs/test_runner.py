"""Tests of a job: limits count from its beginning, and no run depends on those before it."""

from __future__ import annotations

from sottovoce.graphs.single import Single
from sottovoce.nodes.question import Question
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import Job

SUM: Question = {"id": "sum", "question": "What is 14 + 3 * 5 - 7?"}


def test_a_run_gets_what_is_left_of_the_time_of_its_job() -> None:
    job = Job(Limits(time_limit=1000))
    job._start -= 990  # as if runs before it had taken so long

    left = job._left([]).time_limit

    assert left is not None and 0 < left <= 10 and Job()._left([]).time_limit is None


def test_a_run_reuses_no_prefix_of_an_earlier_run_of_its_job(model: str) -> None:
    settings, job = Single(model=[model], max_tokens=4, answer_turn="off"), Job()
    costs = []
    for _ in range(2):
        run = Run(new_manifest("single", settings, [SUM]), [SUM])
        job.run("run", run, settings)
        costs.append(run.cost)

    assert costs[0] == costs[1] and costs[1].tokens_reused == 0
