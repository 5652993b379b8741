"""Tests of nothing lost: a command that is refused, or that fails, leaves a kept run and all around it as they were."""

# ruff: noqa: E501  # a table reads best with one case a line

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from sottovoce.cli.main import main, program
from sottovoce.runs.run_directory import LOCK, LOG
from tests.cli.conftest import Call, Models
from tests.cli.test_help import commands
from tests.cli.test_runs import FEW

TRUST = "--trust-paths"


@pytest.fixture(scope="module")
def made(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of kept runs and of other files: one run over, one stopped, one in which nobody spoke, an experiment."""
    root = tmp_path_factory.mktemp("made")
    shutil.copytree(models.tiny, root / "tiny")
    (root / "asked.jsonl").write_text("".join(f'{{"id": "q{n}", "question": "{n} + 2?"}}\n' for n in (1, 2)))
    row = "{scheme: single, model: ./tiny, max_tokens: 4}"
    (root / "rows.yaml").write_text(f"rows: {{a: {row}}}\nquestions: {{file: asked.jsonl}}\n")
    (root / "there.md").write_text("kept\n")
    (root / "mine").mkdir()  # a folder of the user's own
    same = ["debate", "--questions", "asked.jsonl", "--model", "./tiny", "--protocol", "cipher", "--at-once", "1"]
    same += map(str, FEW)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("SOTTOVOCE_RUNS", str(root / "runs"))
        assert main([*same, "--save", "over"]) == 0
        assert main([*same, "--save", "stopped", "--call-limit", "3"]) == 1
        main(["experiment", "run", "rows.yaml", "--save", "rows", "--call-limit", "1", TRUST])
    shutil.copytree(root / "stopped", root / "begun")
    shutil.rmtree(root / "begun" / "payloads")
    rewrite(root / "begun", lambda lines: lines[: [line["line"] for line in lines].index("step") + 1])
    yield root


def rewrite(folder: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    (folder / LOG).write_text("".join(json.dumps(line) + "\n" for line in change(lines)))


def opened_otherwise(lines: list[Any]) -> list[Any]:
    """The lines of a log, of which the first step of each discussion is changed."""
    for line in lines:
        if line["line"] == "step" and line["events"] and line["events"][0]["event"] == "opened":
            line["update"].update(settings=3)
    return lines


def every(root: Path, change: Callable[[Path], object]) -> None:
    for name in ("over", "stopped", "begun", "rows/a"):
        change(root / name)


def add(text: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        every(root, lambda run: (run / LOG).write_text((run / LOG).read_text() + text))

    return change


def as_folder(run: Path) -> None:
    (run / LOG).unlink()
    (run / LOG).mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "": lambda root: None,
    "copied": lambda root: every(root, lambda run: (run / LOCK).unlink(missing_ok=True)),
    "cut": add('{"line":"asked","of"'),
    "garbage": add('nothing\n{"line":"resumed"}\n'),
    "unknown line": add('{"line":"sung"}\n'),
    "other version": lambda root: every(root, lambda run: rewrite(run, lambda lines: [{**lines[0], "version": 99}, *lines[1:]])),
    "no questions": lambda root: every(root, lambda run: rewrite(run, lambda lines: [line for line in lines if line["line"] != "question"])),
    "opened otherwise": lambda root: every(root, lambda run: rewrite(run, opened_otherwise)),
    "empty": lambda root: every(root, lambda run: (run / LOG).write_text("")),
    "no model": lambda root: shutil.rmtree(root / "tiny"),
    "half a model": lambda root: (root / "tiny" / "config.json").write_text("{"),
    "link": lambda root: every(root, lambda run: (run / "link").symlink_to(root / "there.md")),
    "folder": lambda root: every(root, as_folder),
}  # fmt: skip
BROKEN = ("garbage", "unknown line", "other version", "no questions", "empty", "folder")
"""Damages that no command reads over."""
READERS = {
    "runs show": ["runs", "show", "RUN"],
    "runs resume": ["runs", "resume", "RUN", TRUST],
    "runs export": ["runs", "export", "RUN", "out.md"],
    "runs compare": ["runs", "compare", "RUN", "stopped"],
    "runs measures": ["runs", "measures", "RUN"],
    "runs report": ["runs", "report", "RUN"],
    "runs score": ["runs", "score", "RUN", TRUST],
    "runs verify": ["runs", "verify", "RUN", TRUST],
    "runs judge": ["runs", "judge", "RUN", "--model", "./tiny"],
    "runs remove": ["runs", "remove", "RUN"],
    "view": ["view", "RUN"],
    "monitor collect": ["monitor", "collect", "RUN", "--to", "out.jsonl", TRUST],
    "experiment run": ["experiment", "run", "rows", TRUST],
    "debate": ["debate", "2 + 2?", "--model", "./tiny", "--probe", "shuffled", "--probe-from", "RUN"],
}
"""The commands that take a kept run."""
REFUSED: list[tuple[str, str]] = [
    *((" ".join(words), "unknown run") for words in READERS.values() if "RUN" in words),
    *((" ".join(words).replace("RUN", "over"), "unknown line") for words in READERS.values()),
    *((f"runs resume stopped {TRUST} --at-once 1", damage) for damage in (*BROKEN, "no model", "link", "in use")),
    *((f"runs resume begun {TRUST} --at-once 1", damage) for damage in ("half a model", "opened otherwise")),
    *((f"runs resume stopped {TRUST} {option}", damage) for option, damage in (
        ("--call-limit 0", ""), ("--call-limit 1", "cut"), ("--workers dask", "copied"), ("--workers ray", "cut"),
        ("--gpus-per-worker 2", "cut"), ("--sandbox isolated --xyzzy", "cut"), ("--time-limit nan", "copied"),
    )),
    *((typed, "") for typed in (
        "runs resume begun", "runs resume over", "runs show over --question q3", "runs show over stopped", "runs show mine",
        "runs export over there.md", "runs export over over/new.md", "runs export over mine", "runs export over x/y.md",
        "runs export over out.md --format gif", "runs export over out.trec", "runs export stopped card.json",
        "runs compare over over", "runs compare over stopped --against begun", "runs compare stopped --matched flops",
        "runs compare over --matched hours", "runs measures begun", "runs measures over --by day", "runs report begun",
        "runs report over --html there.md", "runs report over --html over/log.jsonl --force", "runs verify over",
        "runs verify over -k many", "runs judge over --model nowhere", "runs judge begun --model ./tiny",
        "runs judge over --model ./tiny --call-limit 0", "runs remove over", "runs remove over --keep 3",
        "monitor collect over --to there.md", "monitor collect over --to over/log.jsonl --force",
        "debate --model ./tiny --save over 2?", "debate --model ./tiny --save mine/over 2? --human nobody",
        "debate --model nowhere --save mine/new/er 2?", "debate --model ./tiny --save there.md 2?",
        "debate --model ./tiny --save over/payloads 2?", "experiment run rows.yaml --save over",
        "experiment run rows --rows b --trust-paths", "experiment run rows.yaml --save rows --model nowhere",
        "experiment tune debate --sample arithmetic --model nowhere --save mine/new",
        "experiment layers --sample facts --save mine/new --model nowhere", "data index asked.jsonl --to over",
    )),
    *((typed, "half a model") for typed in (
        "runs judge over --model ./tiny", "debate --model ./tiny --save mine/new/er 2?",
        "experiment tune debate --sample arithmetic --model ./tiny --save mine/new", "experiment run rows.yaml --save mine/new",
    )),
]  # fmt: skip


def test_every_command_that_takes_a_kept_run_stands_in_the_table() -> None:
    found = {
        " ".join(path)
        for path, each in commands(program)
        for option in each.params
        if option.name == "runs" or "RUN" in str(option.metavar)
    }

    assert found == {*READERS} - {"experiment run", "debate"}  # these name a folder


def content(root: Path) -> dict[str, object]:
    """Everything in a folder: bytes of files, targets of links, and folders."""
    return {
        str(path.relative_to(root)): path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize(("typed", "damage"), [*dict.fromkeys(REFUSED)])
def test_a_refused_command_leaves_a_kept_run_as_it_was(
    call: Call, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, damage: str
) -> None:
    root = tmp_path / "root"
    shutil.copytree(made, root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("SOTTOVOCE_RUNS", str(root / "runs"))
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    with ExitStack() as held:
        if damage == "in use":
            held.enter_context(FileLock(root / typed.split()[2] / LOCK).acquire(timeout=0))
        elif damage != "unknown run":
            DAMAGES[damage](root)
        before = content(root)

        answer = call(*typed.split())

        assert answer.code in (1, 2), answer
        assert answer.err.splitlines()[-1].startswith("sottovoce: "), answer.err
    assert content(root) == before
