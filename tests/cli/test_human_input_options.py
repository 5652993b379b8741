"""Tests of the options for people: agents that they play, and what they approve."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call, Models
from tests.cli.test_errors import USAGE, refused

FEW = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 1)


def test_a_person_debates_with_a_model_and_the_transcript_says_how_they_hear_one_another(
    call: Call, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("The answer is 4.\n"))

    shown = call("debate", "2 + 2?", "--model", models.tiny, *FEW, "--protocol", "cipher", "--human", "agent_2")

    assert shown.code == 0 and "agent_2: 4" in shown.out and "You reply for agent_2" in shown.err
    assert "note: agent_1 hears agent_2 in words: one of them is a person" in shown.out


def test_a_seat_that_is_not_there_and_commands_in_which_nobody_answers_are_refused(
    call: Call, models: Models, tmp_path: Path
) -> None:
    line = refused(call, USAGE, "mad", "2 + 2?", "--human", "jugde")
    assert line == "unknown agent 'jugde'; the nearest known one is 'judge'"
    given = ("--sample", "arithmetic", "--model", models.tiny, "--limit", 4, "--human", "agent_1")
    assert (
        call("experiment", "tune", "debate", *given, "--save", tmp_path / "tune").err.count("nobody can answer here")
        == 1
    )


def test_what_a_person_let_pass_is_the_run_that_it_was_and_what_was_not_is_told(
    call: Call, models: Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = ("debate", "2 + 2?", "--model", models.tiny, *FEW, "--approve", "answer", "--save")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    assert "Enter approves, - rejects" in call(*given, tmp_path / "passed").err
    monkeypatch.setattr(sys, "stdin", io.StringIO("The answer is 5.\n-\n"))
    shown = call(*given, tmp_path / "changed").out

    assert "withdrawn: a person rewrote it" in shown and "agent_2: abstains" in shown
    assert "1 re-run; 0 findings" in call("runs", "verify", tmp_path / "passed", "--trust-paths").out
    assert "0 re-run; 0 findings" in call("runs", "verify", tmp_path / "changed", "--trust-paths").out
