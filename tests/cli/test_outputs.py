"""Tests of paths: every option that names one only reads it, or checks it with `core.files`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sottovoce.channels.store import PayloadStore
from sottovoce.cli.main import program
from sottovoce.core.errors import UsageError
from sottovoce.core.files import EXPERIMENT, INDEX, RUN, OutputFile, check_folder
from sottovoce.graphs import NAMES
from sottovoce.runs.run import Run, load_run
from tests.cli.conftest import Call
from tests.cli.test_help import commands
from tests.runs.single import run_one
from tests.runs.support import task

SAMPLES = {"debate": "arithmetic", "whodunit": "whodunit"}
"""Representatives of the commands of schemes, with a sample for each."""
READ = {
    *("--settings", "--questions", "--game", "--data", "--runs", "--store", "--prices"),
    *("experiment run file", "data index corpus"),
    *("bridge fit --texts", "bridge list folder", "bridge show bridge"),
    *("monitor train rows", "monitor evaluate monitor", "monitor evaluate rows", "monitor show monitor"),
}
"""Options and arguments that name what is read alone."""
NO_MODEL = ("--model", "./no-such-model")
FILES: dict[str, list[str]] = {
    "runs export file": ["runs", "export", "RUN", "OUT"],
    "runs report --html": ["runs", "report", "RUN", "--html", "OUT"],
    "runs compare --to": ["runs", "compare", "RUN", "--to", "OUT"],
    "experiment run --to": ["experiment", "run", "YAML", "--to", "OUT"],
    "monitor collect --to": ["monitor", "collect", "RUN", "--to", "OUT"],
    "monitor train --to": ["monitor", "train", "ROWS", "--to", "OUT"],
    "data games whodunit --to": ["data", "games", "whodunit", "--n", "1", "--to", "OUT"],
}
"""Options and arguments that name a file which is written."""
FOLDERS: dict[str, list[str]] = {
    "runs compare --plots": ["runs", "compare", "RUN", "--plots", "OUT"],
    "experiment run --plots": ["experiment", "run", "YAML", "--plots", "OUT"],
    "experiment run --save": ["experiment", "run", "YAML", "--save", "OUT"],
    "experiment layers --save": ["experiment", "layers", "--sample", "facts", "--save", "OUT", *NO_MODEL],
    "data index --to": ["data", "index", "ROWS", "--to", "OUT"],
    "bridge fit --to": ["bridge", "fit", "./no-such-model", "./no-such-model", "--to", "OUT"],
    **{
        f"experiment tune {each} --save": ["experiment", "tune", each, "--sample", of, "--save", "OUT", *NO_MODEL]
        for each, of in SAMPLES.items()
    },
    **{f"{each} --save": [each, "--sample", of, "--save", "OUT", *NO_MODEL] for each, of in SAMPLES.items()},
}
"""Those that name a folder."""
NOT_USED = {"runs resume --save"}
"""A run that goes on stays where it is."""
MADE_BY = {RUN: "a run", EXPERIMENT: "an experiment", INDEX: "an index"}


def places() -> Iterator[tuple[str, str]]:
    """Every option and argument that names a place, with the words of its command."""
    for path, command in commands(program):
        for option in [] if isinstance(command, click.Group) else command.params:
            words = {*str(option.metavar).split(" "), option.opts[-1]}
            if words & {"PATH", "FILE", "--to", "--out", "--save"} or getattr(option, "is_path", False):
                if "X" not in words:  # a number
                    yield " ".join(path), option.opts[-1]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that is over, one that is not, an experiment, an index, and rows."""
    root = tmp_path_factory.mktemp("kept")
    run_one(task({"agent_1": ["Answer: 22"], "agent_2": ["Answer: 22"]}), PayloadStore(root / "p"), folder=root / "run")
    (root / "run" / "payloads").mkdir()
    over = load_run(root / "run")
    Run.start(over.manifest, over.questions(), root / "stopped").close()
    (root / "rows.jsonl").write_text('{"docid": "1", "title": "a", "text": "b"}\n')
    for folder, file in {"experiment": EXPERIMENT, "index": INDEX}.items():
        (root / folder).mkdir()
        (root / folder / file).write_text('{"retriever": "bm25"}')
    (root / "some.yaml").write_text(
        "rows: {a: {scheme: single, model: ./no-such-model}}\nquestions: {sample: arithmetic, limit: 1}\n"
    )
    return root


def typed(words: list[str], out: Path, kept: Path) -> list[str]:
    names = {"RUN": "run", "STOPPED": "stopped", "ROWS": "rows.jsonl", "YAML": "some.yaml"}
    return [str(out) if word == "OUT" else str(kept / names[word]) if word in names else word for word in words]


def test_every_option_that_names_a_place_is_read_or_stands_in_a_table_of_outputs() -> None:
    schemes, wrong = {name.replace("_", "-") for name in NAMES}, []
    for command, option in places():
        alike = (" ".join(each if word in schemes else word for word in command.split()) for each in SAMPLES)
        names = {option, *(f"{words} {option}" for words in (command, *alike))}
        if not names & {*READ, *FILES, *FOLDERS, *NOT_USED} and not command.startswith("step "):
            wrong.append(f"{command} {option}")

    assert wrong == [], "add it to READ, FILES or FOLDERS; what is written goes through sottovoce.core.files"


@pytest.mark.parametrize("words", FILES.values(), ids=FILES)
def test_no_option_writes_into_a_run_or_over_a_file_that_exists(
    call: Call, kept: Path, tmp_path: Path, words: list[str]
) -> None:
    link, mine = tmp_path / "link.jsonl", tmp_path / "mine.jsonl"
    mine.write_text("mine")
    link.symlink_to(kept / "run" / RUN)
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}

    for out in (kept / "run" / RUN, kept / "run" / "new.jsonl", kept / "run" / "payloads" / "new.jsonl", link):
        answer = call(*typed(words, out, kept), "--force")
        assert (answer.code, answer.err.count("\n")) == (2, 1), answer
        assert f"'{out}' is in the folder of a run" in answer.err
    for folder, what in (("experiment", "an experiment"), ("index", "an index")):
        answer = call(*typed(words, kept / folder / "new.jsonl", kept), "--force")
        assert answer.code == 2 and f"is in the folder of {what}" in answer.err, answer
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    answer = call(*typed(words, mine, kept))
    assert answer.code == 2 and "exists already; choose another file, or write over it with --force" in answer.err
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(("words", "ending"), [("runs export file", "jsonl"), ("runs report --html", "html")])
def test_an_existing_file_can_be_overwritten(call: Call, kept: Path, tmp_path: Path, words: str, ending: str) -> None:
    out, link = tmp_path / f"mine.{ending}", tmp_path / f"link.{ending}"
    out.write_text("mine")
    link.symlink_to(out)

    answer = call(*typed(FILES[words], link, kept), "--force")

    assert answer.code == 0, answer
    assert out.read_text() != "mine" and link.is_symlink(), "a link stays, and what it points to is written"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


@pytest.mark.parametrize("words", FOLDERS.values(), ids=FOLDERS)
def test_no_folder_of_another_command_is_used(call: Call, kept: Path, tmp_path: Path, words: list[str]) -> None:
    before = sorted(kept.rglob("*"))
    made = {"run": EXPERIMENT, "tune": "", "layers": "", "index": INDEX}
    own = {"experiment": made, "data": made, "bridge": {"fit": ""}}.get(words[0], {}).get(words[1], RUN)

    for folder, file in (("run", RUN), ("experiment", EXPERIMENT), ("index", INDEX)):
        within = call(*typed(words, kept / folder / "below" / "new", kept))
        assert within.code == 2 and f"is in the folder of {MADE_BY[file]}" in within.err, within
        if file != own:
            onto = call(*typed(words, kept / folder, kept))
            assert onto.code == 2 and f"is the folder of {MADE_BY[file]}; choose another folder" in onto.err, onto
    assert sorted(kept.rglob("*")) == before


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no such folder here")
def test_a_path_through_the_folder_of_open_files_is_no_stream(kept: Path) -> None:
    # Seen: the rest of the path led to a run's log, and the text was added to it.
    for folder in ("/dev/fd/..", "/proc/self/fd/.."):
        with pytest.raises(UsageError, match="is in the folder of a run"):
            OutputFile(Path(f"{folder}/root{kept / 'run' / RUN}"), "--to")


def test_a_manifest_of_another_program_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text('{"name": "a page", "icons": []}')

    OutputFile(tmp_path / "new", "--to").write("text")
    check_folder(tmp_path / "folder", "--save", RUN)

    assert (tmp_path / "new").read_text() == "text"


def test_a_file_that_came_into_being_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    file = OutputFile(tmp_path / "new", "--to")
    (tmp_path / "new").write_text("of another process")

    with pytest.raises(UsageError, match="exists already"):
        file.write("text")

    assert (tmp_path / "new").read_text() == "of another process"


def test_a_loop_of_links_is_no_place_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    with pytest.raises(UsageError, match="cannot be written"):
        OutputFile(tmp_path / "loop", "--to")
