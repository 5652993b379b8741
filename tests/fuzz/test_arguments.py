"""Odd arguments to every command, in this process; no model is there to be loaded."""

from __future__ import annotations

import io
import random
from pathlib import Path

import click
import pytest

from sottovoce.cli.main import main, program
from tests.cli.test_help import commands
from tests.fuzz.cases import drawn, held, text

BESIDES = {"list", "show"}
"""Commands that need no model."""
LEFT_OUT = {"symmetry", "doctor", "pull", "remove", "index", "view"}
"""What would fetch, delete, compute for long, or serve until it is stopped."""


@drawn("arguments")
def test_a_command_line_is_answered_or_refused_in_one_line(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for name in ("SOTTOVOCE_RUNS", "SOTTOVOCE_STORE", "SOTTOVOCE_MODELS", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    assert main(["debate", "2 + 2?", "--model", "./no-such-model"]) == 2  # what is imported late takes seconds
    capsys.readouterr()
    known = [
        (path, command)
        for path, command in commands(program)
        if not isinstance(command, click.Group) and not {*path} & LEFT_OUT
    ]

    def case(rng: random.Random) -> None:
        words, command = rng.choice(known)
        arguments, options = list(words), [each.opts[-1] for each in command.params if each.opts[-1].startswith("-")]
        for _ in range(rng.randrange(4)):
            arguments += [rng.choice(options), text(rng)] if options and rng.random() < 0.8 else [text(rng)]
        if "--model" in options and words[-1] not in BESIDES and words[0] != "graph":
            arguments += ["--model", "./no-such-model"]
        code = main(arguments)
        told = capsys.readouterr().err
        assert code in (0, 1, 2), f"{arguments}: exit code {code}"
        assert not code or len(told.splitlines()) == 1, f"{arguments}: {told!r}"
        assert "Traceback" not in told, arguments

    held("arguments", seeds, case)
