"""Tests of received runs whose ids and names have control characters: no command prints one, nor writes it as text."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.text import BIDI
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.question import Question
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all
from tests.cli.conftest import Call

NASTY = "a\x1b[2J\x9b2K\u202etxt\u2066\x07"
"""Clears the screen, in two ways, and reverses what follows it."""
CONTROLS = {"Cc", "Cs", "Zl", "Zp"}  # with lone surrogates, line and paragraph separators


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one question, two, and none, whose names are all hostile; and a monitor of that kind."""
    root = tmp_path_factory.mktemp("hostile")
    settings = Debate(agents=2, rounds=1)
    for name, n in (("one", 1), ("two", 2)):
        questions: list[Question] = [
            {
                "id": f"NASTY{i}",
                "question": "Which is it, NASTY?",
                "kind": "text",
                "target": "NASTY",
                "documents": [{"id": "NASTY", "title": "NASTY", "text": "NASTY", "source": "NASTY"}],
            }
            for i in range(n)
        ]
        replies = {"agent_1": ["The answer is [NASTY]."] * 9, "agent_2": ["Hm, NASTY."] * 9}
        models = ScriptedChatModel(replies)
        run = Run.start(
            new_manifest("debate", settings, questions, origin="NASTY", models=models), questions, root / name
        )
        run_all(run, settings, run.store(), models=models)
        log = (
            (root / name / "log.jsonl")
            .read_text()
            .replace("agent_2", "NASTYagent")
            .replace("NASTY", json.dumps(NASTY)[1:-1])
        )
        folder = root / f"{name}{NASTY.replace('/', '')}"
        (root / name).rename(folder)
        (folder / "log.jsonl").write_text(log)
        if name == "one":
            (root / "line").mkdir()
            (root / "line" / "log.jsonl").write_text(log.splitlines(keepends=True)[0])
    return root


def raw(text: str) -> set[str]:
    """The characters of a text that a terminal would obey."""
    return {each for each in text if each != "\n" and (unicodedata.category(each) in CONTROLS or each in BIDI)}


COMMANDS = (
    "runs list",
    "runs show RUN",
    "runs show RUN --show-prompts",
    "runs show RUN --question ID0",
    "runs show line",
    "runs show RUN --question ID9",
    "runs measures RUN",
    "runs compare RUN",
    "runs compare RUN --against ID0",
    "runs verify RUN --no-model",
    "runs verify RUN",
    "runs resume RUN",
    "runs export RUN out.md --force",
    "runs export RUN out.trec --force",
    "runs export RUN out.qrels --force",
    "runs export RUN ID0.gif",
    "runs report RUN --html ID0.html --force",
    "runs judge RUN --model ID0",
    "monitor collect RUN --to ID0.jsonl --force",
    "payloads gc --checkpoints ID0",
    "experiment run ID0",
    "monitor show ID0",
    "data show ID0",
    "debate --model ID0 2?",
    "ID0 ID0",
)


@pytest.mark.parametrize("name", ["one", "two"])
def test_no_name_of_a_received_run_reaches_the_terminal_raw(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setenv("SOTTOVOCE_RUNS", str(root))
    (run,) = (each for each in root.iterdir() if each.name.startswith(name))
    wrong, answers = {}, {}
    for typed in COMMANDS:
        answer = answers[typed] = call(*(word.replace("RUN", str(run)).replace("ID", NASTY) for word in typed.split()))
        files = [file.read_text() for file in map(Path, ("out.md", "out.trec", "out.qrels")) if file.exists()]
        if found := raw("\n".join([answer.out, answer.err, *files])):
            wrong[typed] = (found, answer)

    assert not wrong
    shown = {typed for typed, answer in answers.items() if answer.code == 0}
    assert "0 questions" in answers["runs show line"].out
    assert {
        "runs list",
        "runs show line",
        "runs show RUN",
        "runs show RUN --question ID0",
        "runs export RUN out.md --force",
    } <= shown


def test_the_command_line_prints_plain_lines_by_one_function() -> None:
    offenders = [
        f"{path.name}:{node.lineno}"
        for path in Path("sottovoce/cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert len(offenders) <= 2, f"use core.text.say: {offenders}"  # a drawing, and a prompt without a line break
