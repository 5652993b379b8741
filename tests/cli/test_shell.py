"""Tests of the command line among other programs: pipes, completion, and `python -m`."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from sottovoce import __version__
from sottovoce.cli.main import main
from tests.cli.conftest import Call, Models
from tests.cli.test_commands import FAST, start

ROWS = '{"question": "1 + 1?", "target": 2}\n{"question": "2 + 1?", "target": 3}\n'


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_dash_reads_the_question_from_stdin(call: Call, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, "Was ist\n2 + 2 – und warum?\n".encode())

    run = json.loads(call("single", "-", "--model", models.tiny, "--json", *FAST).out)

    assert run["question"]["question"] == "Was ist\n2 + 2 – und warum?"


def test_a_dash_reads_questions_from_stdin(call: Call, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, ROWS.encode())

    run = json.loads(call("single", "--questions", "-", "--limit", 1, "--model", models.tiny, "--json", *FAST).out)

    assert (run["question"]["question"], run["origin"]) == ("1 + 1?", "1 of 2 rows of stdin")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "the question is empty; give a text to discuss"),
        (b"\xff", "the question is not UTF-8: invalid start byte at byte 0, line 1"),
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
        ("sottovoce debate --model ", ["bundled", "small", "smollm2"]),
        ("sottovoce runs show ", ["latest", "2026-b", "2026-a"]),
        ("sottovoce runs compare la", ["latest"]),
        ("sottovoce debate --questions d", ["file:d"]),
        ("sottovoce debate --model ./m", ["file:./m"]),
        ("sottovoce runs show runs/", ["file:runs/"]),
        ("sottovoce experiment run ", ["file:"]),
    ],
)
def test_a_shell_is_offered_names(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    line: str,
    offered: list[str],
) -> None:
    for file in ("runs/2026-a/log.jsonl", "runs/2026-b/log.jsonl", "models/smollm2/source.json"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("{}\n")
    (tmp_path / "config.toml").write_text("[models.small]\nmodel = 'bundled'\n")
    for name, place in (("RUNS", "runs"), ("MODELS", "models"), ("CONFIG", "config.toml")):
        monkeypatch.setenv(f"SOTTOVOCE_{name}", str(tmp_path / place))

    assert sorted(complete(monkeypatch, capsys, line)) == sorted(offered)


def test_a_broken_config_file_does_not_keep_models_from_being_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text("[models")
    monkeypatch.setenv("SOTTOVOCE_CONFIG", str(tmp_path / "config.toml"))

    assert complete(monkeypatch, capsys, "sottovoce debate --model b") == ["bundled"]


@pytest.mark.parametrize(("shell", "startup"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_completion_is_installed_once(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, startup: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / startup).write_text("mine\n")

    answers = [call("--install-completion") for _ in range(2)]

    assert [answer.code for answer in answers] == [0, 0]
    script = tmp_path / ".config" / "sottovoce" / f"completion.{shell}"
    assert (tmp_path / startup).read_text() == f"mine\nsource '{script}'\n"
    assert script.read_text() == call("--show-completion").out


def test_a_shell_without_completion_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    assert call("--show-completion").err == (
        "sottovoce: unknown shell 'tcsh'; choose from: bash, fish, zsh (by the variable SHELL)\n"
    )


def test_it_runs_as_a_module() -> None:
    call = [sys.executable, "-m", "sottovoce", "--version"]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    assert subprocess.check_output(call, env=own, text=True) == f"sottovoce {__version__}\n"


@pytest.fixture
def quiet_after() -> Iterator[None]:
    yield
    logger = logging.getLogger("sottovoce")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("quiet_after")
def test_verbose_tells_on_stderr_what_is_loaded_read_and_kept(call: Call, models: Models, tmp_path: Path) -> None:
    model = shutil.copytree(models.tiny, tmp_path / "another")  # not one that an earlier test loaded

    answer = call("single", "2 + 2?", "--model", model, "--save", tmp_path / "run", "--json", "--verbose", *FAST)

    assert json.loads(answer.out)["status"] == "done"
    told = [line.split(": ", 1)[1] for line in answer.err.splitlines()]
    assert told[0].startswith(f"loaded {model} from ") and told[1] == f"saving the run in {tmp_path / 'run'}"
    assert any(line.startswith("reads a prompt of ") for line in told[2:])
