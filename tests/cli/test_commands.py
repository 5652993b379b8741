"""Tests of what commands print and write, on a tiny model with random weights."""

from __future__ import annotations

import gc
import json
import os
import pty
import select
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.graphs import NAMES
from sottovoce.graphs.debate import Debate
from sottovoce.retrievers import ABOUT, RETRIEVERS
from sottovoce.runs.run import load_run
from sottovoce.runs.run_directory import saved_runs
from tests import warm
from tests.cli.conftest import Call, Models

FAST = ("--max-tokens", "6")


def test_schemes_protocols_and_retrievers_are_listed(call: Call) -> None:
    lines = call("graph", "list").out.splitlines()

    assert [line.split()[0] for line in lines[: len(NAMES)]] == [name.replace("_", "-") for name in NAMES]
    protocols = "nl, cipher, sde, hidden, kv, thoughts, graft"
    assert any(line.startswith(f"--protocol        {protocols}: What a message carries") for line in lines)
    retrievers = [line.split()[0] for line in lines if line.startswith("  ")]
    assert retrievers[: len(ABOUT)] == [about.spec for about in ABOUT.values()] and {*ABOUT} == {*RETRIEVERS._paths}
    [dense] = [line for line in lines if "dense:FOLDER" in line]
    assert dense.endswith("needs extra dense")


@pytest.mark.parametrize(("scheme", "protocol"), [("debate", "hidden"), ("self-consistency", "cipher")])
def test_json_is_one_object_and_nothing_else(call: Call, models: Models, scheme: str, protocol: str) -> None:
    answer = call(scheme, "What is 2 + 2?", "--model", models.tiny, "--protocol", protocol, "--json", *FAST)

    assert (answer.code, answer.err) == (0, "")
    run = json.loads(answer.out)
    assert (run["format"], run["version"], run["status"], run["scheme"]) == (
        "sottovoce.run", 1, "done", scheme.replace("-", "_"),
    )  # fmt: skip
    assert run["question"]["question"] == "What is 2 + 2?"
    assert run["settings"]["protocol"] == protocol
    spoken = "nl" if scheme == "self-consistency" else protocol  # samples are drawn in words
    for message in run["messages"]:
        assert message["payload"]["protocol"] == ("nl" if message["asked"] == "answer" else spoken)
    assert run["decision"]["rule"] and run["cost"]["calls"] == len(run["messages"])
    assert all(model["weights"] and model["parameters"] > 1000 for model in run["models"].values())


def test_documents_go_to_all_or_to_one() -> None:
    options = QuestionOptions.model_validate({"question": "x?", "document": ["all know it", "agent_2=x = 3."]})

    (question, *_), *_ = questions_of(options, Debate())
    assert question["documents"] == {"agent_1": ["all know it"], "agent_2": ["all know it", "x = 3."]}


def test_a_run_without_a_folder_is_kept_on_the_shelf_with_its_payloads(
    call: Call, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert call("debate", "2 + 2?", "--model", models.tiny, "--protocol", "cipher", *FAST).code == 0

    assert list(tmp_path.iterdir()) == []
    (folder,) = saved_runs()
    run = load_run(folder)
    assert run.status == "done" and len([message for message in run.only.messages if not message.asked]) == 6
    store = run.store()
    for message in run.only.messages:
        assert message.payload is not None and message.payload.load(store).label.text == message.text


def test_quiet_prints_the_decision_alone(call: Call, models: Models) -> None:
    answer = call("debate", "--sample", "arithmetic/1", "--role", "expert", "--quiet", "--model", models.tiny)

    target, *_ = answer.out.split()
    assert answer.out.startswith(f"{target}  by majority: 2 of 2 say {target}\n")
    assert f"right: the answer is {target}" in answer.out


def test_a_pipe_is_told_on_stderr_what_is_loaded_if_that_takes_long(
    call: Call, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    debate = ("debate", "2 + 2?", "--rounds", 1, "--max-tokens", 2, "--model", models.tiny)
    usual = call(*debate)
    monkeypatch.setattr("sottovoce.cli.command.LATE", 0)
    late, quiet = call(*debate), call(*debate, "--quiet")

    assert late.err == f"debate · nl · {models.tiny}: loading ...\n" and not quiet.err
    assert late.out.partition(" calls, ")[0] == usual.out.partition(" calls, ")[0]  # behind it is the time
    assert gc.isenabled()


def start(*arguments: object, **streams: Path | str) -> ForkServerProcess:
    """Start a command; `streams` has the file, pipe or terminal of its stdin, stdout and stderr."""
    # A shell's background jobs ignore SIGINT, and so does all that they start: tests that run there included.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from sottovoce.cli.main import main; sys.exit(main())"
    given = {("stdin", "stdout", "stderr").index(name): path for name, path in streams.items()}
    own = {**os.environ, "TERM": "xterm-256color"}
    return warm.start(code, *arguments, streams=given, env=own)


def wait_for_messages(process: ForkServerProcess, folder: Path) -> None:
    """Return once a run has a message, however long a busy machine takes."""
    log = folder / "log.jsonl"  # it is created empty, so its first line may come later
    while not log.exists() or b"\n" not in log.read_bytes() or not load_run(folder).spoken:
        assert process.is_alive(), "the command ended before its first message"
        time.sleep(0.05)


def test_a_stopped_run_shows_what_it_had(models: Models, tmp_path: Path) -> None:
    long = ("--rounds", 200, "--max-tokens", 4, "--shape", "fresh", "--model", models.tiny)
    files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
    process = start("debate", "2 + 2?", *long, "--save", tmp_path / "run", **files)
    try:
        wait_for_messages(process, tmp_path / "run")
        os.kill(process.pid or 0, signal.SIGINT)
        process.join()
    finally:
        process.kill()  # nothing outlives a test, however it ends

    assert process.exitcode == 130
    out, err = (path.read_text() for path in files.values())
    assert out.count("╭─") == out.count("╰─") and "Decision" not in out  # message by message, as each was said
    assert "Round 1" in out
    folder = tmp_path / "run"
    told = f"sottovoce: stopped; all messages are saved, and `sottovoce runs resume {folder} --trust-paths` resumes\n"
    assert err.endswith(told)
    run = load_run(tmp_path / "run").only
    assert run.status == "stopped" and run.decision is None
    assert run.messages and run.cost.calls == len(run.messages)


def test_a_terminal_sees_the_debate_stream_and_gets_its_cursor_back(models: Models) -> None:
    ours, theirs = pty.openpty()
    long = ("--model", models.tiny, "--agents", 3, "--max-tokens", 24, "--rounds", 2, "--shape", "fresh")
    terminal = dict.fromkeys(("stdin", "stdout", "stderr"), os.ttyname(theirs))
    process = start("debate", "2 + 2?", *long, **terminal)
    seen, alive = bytearray(), True
    while alive:
        alive = process.is_alive()
        while select.select([ours], [], [], 0.05)[0]:
            seen += os.read(ours, 65536)
    os.close(ours)
    os.close(theirs)
    process.join()

    text = " ".join(seen.decode().split())  # a model's long path wraps its line
    assert process.exitcode == 0
    assert 0 < text.index(": loading ...") < text.index("agent_1 …") and "shaded by entropy" in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l") > 0
    assert text.index("Round 1") < text.index("Round 2") < text.index("Decision")
