"""Tests of the command line among other programs: pipes and completion."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from sottovoce.cli.main import main
from tests.cli.conftest import Call, Models
from tests.cli.test_commands import FAST, start

ROWS = '{"question": "1 + 1?", "target": 2}\n{"question": "2 + 1?", "target": 3}\n'


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_dash_reads_questions_from_stdin(call: Call, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, ROWS.encode())

    run = json.loads(call("single", "--questions", "-", "--limit", 1, "--model", models.tiny, "--json", *FAST).out)

    assert (run["question"]["question"], run["origin"]) == ("1 + 1?", "1 row of stdin")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "the question is empty; give a text to discuss"),
        (
            b"\xff",
            "the question is not UTF-8: invalid start byte at byte 0, line 1; convert it, such as by "
            "iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW",
        ),
    ],
)
def test_an_empty_stdin_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch, data: bytes, told: str) -> None:
    pipe(monkeypatch, data)

    answer = call("single", "-")

    assert (answer.code, answer.out, answer.err) == (2, "", f"sottovoce: {told}\n")


def test_a_pipe_gets_each_round_while_the_next_is_under_way(models: Models, tmp_path: Path) -> None:
    long = ("--rounds", 1000, "--max-tokens", 4, "--shape", "fresh", "--model", models.tiny)
    os.mkfifo(tmp_path / "pipe")
    process = start("debate", "2 + 2?", *long, "--save", tmp_path / "run", stdout=tmp_path / "pipe")
    try:
        with (tmp_path / "pipe").open(encoding="utf-8") as lines:
            rounds = (line for line in lines if line.startswith("Round "))
            read = list(islice(rounds, 3))
            still = process.is_alive()
    finally:
        process.kill()
        process.join()

    assert still and [line.split()[1] for line in read] == ["1", "2", "3"]


def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """What bash is offered for the last word of a line; `file:` before a beginning that bash itself completes."""
    monkeypatch.setenv("_SOTTOVOCE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    assert main([]) == 0
    return [offer.removeprefix("plain,").replace("file,", "file:") for offer in capsys.readouterr().out.split()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sottovoce re", ["reconcile", "react"]),
        ("sottovoce debate --esc", ["--escalate", "--escalate-above"]),
        ("sottovoce debate --protocol ", ["nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft"]),
        ("sottovoce debate --model ./m", ["file:./m"]),
        ("sottovoce experiment run ", ["file:"]),
    ],
)
def test_a_shell_is_offered_names(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    offered: list[str],
) -> None:
    assert sorted(complete(monkeypatch, capsys, line)) == sorted(offered)


@pytest.fixture
def quiet_after() -> Iterator[None]:
    yield
    logger = logging.getLogger("sottovoce")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("quiet_after")
def test_verbose_tells_on_stderr_what_is_loaded_read_and_kept(call: Call, models: Models, tmp_path: Path) -> None:
    model = shutil.copytree(models.tiny, tmp_path / "another")  # not one that an earlier test loaded

    answer = call("--verbose", "single", "2 + 2?", "--model", model, "--save", tmp_path / "run", "--json", *FAST)

    assert json.loads(answer.out)["status"] == "done"
    told = [line.split(": ", 1)[1] for line in answer.err.splitlines()]
    assert told[0].startswith(f"loaded {model} from ") and told[1] == f"saving the run in {tmp_path / 'run'}"
    assert any(line.startswith("reads a prompt of ") for line in told[2:])
