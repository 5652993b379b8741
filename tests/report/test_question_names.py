"""Questions of a file without ids: lists name them by row and text, not by the digest that is their id."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sottovoce.cli.options import Output
from sottovoce.cli.run_screen import print_many
from sottovoce.datasets.question_files import read_file
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.question import Question
from sottovoce.report.comparison import comparison_of, sentences
from sottovoce.report.notebook import html
from sottovoce.report.viewer import row
from sottovoce.runs.api import RunResults
from sottovoce.runs.cost import Cost
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from tests.report.test_carried import REPLIES
from tests.runs.support import held

SECOND = "row 2: How many cats are there 'in the house' w …"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two questions of a CSV file, the second of which failed."""
    (tmp_path / "mine.csv").write_text(
        "question,target\nWhat is 14 + 15?,29\nHow many cats are there `in the house` while it rains?,7\n"
    )
    file = read_file(tmp_path / "mine.csv")
    run = Run(new_manifest("debate", Debate(rounds=2), file.questions, origin=file.taken, models={}), file.questions)
    record = held(REPLIES, tmp_path / "payloads").model_copy(update={"cost": Cost(), "origin": file.taken})
    decision: Any = {**(record.decision or {}), "score": 1.0}
    failed = {"decision": None, "status": "failed", "error": "no server"}
    for key, change in zip(run.records, ({"decision": decision}, failed), strict=True):
        run.records[key] = record.model_copy(update={"question": run.records[key].question, **change})
    return run


def test_a_runs_list_a_notebook_and_the_notes_of_a_comparison_name_row_and_text(run: Run) -> None:
    console = Console(file=StringIO(), width=120, markup=False)

    print_many(console, run, Output())

    assert isinstance(console.file, StringIO)
    assert SECOND in console.file.getvalue() and "row 1: What is 14 + 15?" in console.file.getvalue()
    assert SECOND in " ".join(sentences(comparison_of({"run": run})))
    assert "row 1: What is 14 + 15?" in html(RunResults(run))
    assert not {key[0] for key in run.records} & {*console.file.getvalue().split()}


def test_the_page_names_the_row_before_the_text(run: Run) -> None:
    listed = [row(record, 0, 0, run.names) for record in run.records.values()]

    assert [each["name"] for each in listed] == ["row 1", "row 2"]
    assert [len(each["id"]) for each in listed] == [12, 12]  # the same question of other runs is still found


def test_questions_with_ids_of_their_own_and_typed_ones_keep_their_names(run: Run) -> None:
    own: Question = {**run.questions()[0], "id": "q1"}
    assert Run(run.manifest, [own]).names == {}
    assert Run(run.manifest.model_copy(update={"origin": None}), run.questions()).names == {}
