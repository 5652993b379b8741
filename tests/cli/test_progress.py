"""Tests of the progress of a run of many discussions."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from sottovoce.cli import progress
from sottovoce.cli.progress import RunProgress
from sottovoce.runs.limits import Limits
from sottovoce.runs.read import load_run
from sottovoce.runs.start import resume_run
from tests.runs.test_saved_runs import begin, fresh, hold


def test_a_terminal_sees_how_many_are_over_the_rate_and_the_score(tmp_path: Path) -> None:
    seen = StringIO()
    run = begin(tmp_path / "run", 3)

    with RunProgress(Console(file=seen, force_terminal=True, width=100), run) as shown:
        hold(run, observe=shown.observe, limits=Limits(at_once=1))

    assert "3/3" in seen.getvalue() and " a minute" in seen.getvalue() and "0% right" in seen.getvalue()


def test_elsewhere_a_line_comes_now_and_then(tmp_path: Path) -> None:
    seen = StringIO()
    run = begin(tmp_path / "run", 3)

    shown = RunProgress(Console(file=seen, width=100), run)
    shown._last_line -= progress.BETWEEN  # as if so much time had passed
    with shown:
        hold(run, observe=shown.observe, limits=Limits(at_once=1))

    (line,) = seen.getvalue().splitlines()
    assert line.startswith("1 of 3: ") and " a minute, " in line and line.endswith(" left, 0% right")


def test_what_earlier_sessions_did_counts_for_the_score_and_not_for_the_rate(tmp_path: Path) -> None:
    hold(begin(tmp_path / "run", 3), limits=Limits(call_limit=16, at_once=1))
    run = resume_run(load_run(tmp_path / "run"), models=fresh())

    before = RunProgress(Console(file=StringIO()), run).line()

    assert before == "none yet, 0% right"
    run.close()


def test_times_are_told_as_on_a_clock() -> None:
    assert [progress._clock(seconds) for seconds in (5, 65, 3700)] == ["0:05", "1:05", "1:01:40"]
