"""Tests of `runs report`: its page, its output and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.runs.run_directory import saved_runs
from tests.cli.conftest import Call, Models
from tests.cli.test_errors import FAILED, USAGE, refused

FEW = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 1)


@pytest.fixture
def stopped(call: Call, models: Models, tmp_path: Path) -> str:
    """A run of three questions that was stopped after one."""
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(f'{{"id": "q{i}", "question": "{i} + 2?", "target": "{i + 2}"}}\n' for i in (1, 2, 3)))
    call("debate", "--questions", asked, "--model", models.tiny, *FEW, "--call-limit", 3, "--at-once", 1)
    return saved_runs()[-1].name


def test_an_unfinished_run_is_reported_as_far_as_it_got(call: Call, stopped: str, tmp_path: Path) -> None:
    answer = call("runs", "report", stopped, "--html", tmp_path / "out.html")

    first, last = answer.out.replace(f"{tmp_path}/", "").splitlines()
    assert answer.code == 0 and first == f"unfinished: 1 of 3 discussions ended (open: {stopped})"
    assert last.startswith("report of 1 run, 1 discussion: out.html (")
    assert first in (tmp_path / "out.html").read_text()
    assert call("runs", "compare", stopped).out.endswith(f"- `{stopped}`: 2 of 3 are not over.\n")


def test_what_cannot_be_reported_is_refused_in_one_line(call: Call, stopped: str, tmp_path: Path) -> None:
    log = saved_runs()[-1] / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if '"decided"' not in line))

    nothing = refused(call, USAGE, "runs", "report", stopped, "--html", tmp_path / "out.html")
    nowhere = refused(call, USAGE, "runs", "report", stopped, "--html", tmp_path / "no" / "out.html")
    unknown = refused(call, FAILED, "runs", "report", "nothing", "--html", tmp_path / "out.html")

    assert nothing.startswith(f"nothing to report yet: no discussion of {stopped} has ended")
    assert nowhere.endswith("is not a folder") and unknown.startswith("unknown run 'nothing'")
    assert not (tmp_path / "out.html").exists()


def test_a_layer_that_is_not_there_is_refused(call: Call, stopped: str, tmp_path: Path) -> None:
    line = refused(
        call, USAGE, "runs", "report", stopped, "--html", tmp_path / "out.html", "--attention", 7, "--trust-paths"
    )

    assert "layer 7 is out of range" in line and line.endswith("has layers 0 to 1")
