"""Tests of odd calls: repeated or empty values, closed streams, narrow terminals, misnamed files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.runs.record import Result, Results, as_cell
from tests.cli.conftest import Call
from tests.cli.test_errors import USAGE, refused
from tests.runs.single import run_one
from tests.runs.support import task
from tests.tables import some

NO_MODEL = ("--model", "./no-such-model")
DEEP = "[" * 2_000 + "]" * 2_000
SIGINT_AT = """
import os, signal, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stop())
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background begin with it ignored
sys.argv = ["sottovoce", "debate", "2 + 2?", "--rounds", "1"]
from sottovoce.__main__ import main
sys.exit(main())
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run_one(
        task({"agent_1": ["Answer: 22"], "agent_2": ["Answer: 22"]}), PayloadStore(tmp_path), folder=tmp_path / "run"
    )
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (f"a: {DEEP}", ["debate", "--settings", "deep.yaml", "2 + 2?", *NO_MODEL]),
        (f'{{"question": {DEEP}}}', ["debate", "--questions", "deep.jsonl", *NO_MODEL]),
        ("", ["debate", "2 + 2?", "--option", f"a={DEEP}", *NO_MODEL]),
    ],
)
def test_deeply_nested_values_are_refused_in_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("deep.yaml", "deep.jsonl"):
        (tmp_path / name).write_text(text)

    answer = call(*arguments)

    assert answer.code in (1, 2) and answer.err.count("\n") == 1 and len(answer.err) < 1000, answer.err[:2000]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["runs", "export", "RUN", "a.xlsx"],
            "the file 'a.xlsx' ends in '.xlsx'; expected card.json, or one of .csv, .md,",
        ),
        (["runs", "report", "RUN", "--html", "a.csv"], "--html 'a.csv' ends in '.csv'; expected .html or .htm"),
    ],
)
def test_no_file_is_written_whose_ending_would_say_something_else(
    call: Call, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)

    assert refused(call, USAGE, *(run if word == "RUN" else word for word in arguments)).startswith(line)
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.parametrize("arguments", [["debate", "--help"], ["runs", "show", "RUN"], ["runs", "compare", "RUN"]])
def test_a_terminal_may_have_one_column(
    call: Call, run: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "1")

    assert call(*(run if word == "RUN" else word for word in arguments)).code == 0


@pytest.mark.slow
def test_a_stream_that_is_closed_is_an_empty_one() -> None:
    words = f"{sys.executable} -m sottovoce debate - {' '.join(NO_MODEL)} <&- >&-"
    found = subprocess.run(["sh", "-c", words], capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert found.returncode == 2 and found.stderr.count("\n") == 1, found.stderr


@pytest.mark.parametrize("module", some(["click", "torch"], "click"))
def test_ctrl_c_while_modules_are_loaded_says_one_line_or_none(module: str) -> None:
    found = subprocess.run([sys.executable, "-c", SIGINT_AT.format(name=module)], capture_output=True, text=True)

    assert (found.returncode, found.stdout) == (130, "") and found.stderr in ("", "sottovoce: stopped\n"), found.stderr


CELLS = {"=1+1": "'=1+1", "-x": "'-x", "\t=1": "'\t=1", "'=1": "''=1", "-5": "-5", "+1.5e3": "+1.5e3"}


def test_a_cell_that_a_spreadsheet_would_compute_is_quoted() -> None:
    assert {text: as_cell(text) for text in CELLS} == CELLS and as_cell(-5) == -5 and as_cell(None) is None
    assert Results([Result("=1", answer="-3")]).to_csv().splitlines()[1].startswith("'=1,0,-3,")


def test_an_argument_of_a_model_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown argument of HookedChatModel: 'tempature'; .* 'temperature'"):
        HookedChatModel(tempature=0)  # type: ignore[call-arg]


def test_a_reader_of_the_output_that_leaves_ends_the_command_without_a_traceback() -> None:
    command = [sys.executable, "-c", "from sottovoce.cli.main import main; raise SystemExit(main(['--help']))"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 1)
