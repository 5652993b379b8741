"""Tests of options: each is a field of a model, and means the same on the command line and in a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from sottovoce.channels.store import PayloadStore
from sottovoce.cli.options import Output, build
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.graphs import scheme
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.option_groups import BY_NAME
from sottovoce.nodes.settings import Settings
from sottovoce.runs.limits import Limits
from tests.cli.conftest import Call, Models
from tests.runs.single import run_one
from tests.runs.support import task


def options(model: type[BaseModel]) -> set[str]:
    positional = {"question"}
    return {
        f"--{(info.alias or name).strip('_').replace('_', '-')}"
        for name, info in model.model_fields.items()
        if name not in positional | (set(BY_NAME) if issubclass(model, Settings) else set())
        and not (isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("command") is False)
    }


@pytest.mark.parametrize("name", ["debate", "codegen"])
def test_help_has_every_setting(call: Call, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    answer = call(name.replace("_", "-"), "--help-all")

    shown = set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", answer.out, re.MULTILINE))
    assert shown == {"--help", "--help-all", "--settings"} | options(scheme(name).settings) | {
        option for model in (QuestionOptions, Limits, Output) for option in options(model)
    } - ({"--game"} if name == "debate" else set())  # it plays none


def test_help_tells_choices_and_defaults(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    out = call("debate", "--help-all").out

    names = r"nl\|cipher\|sde\|hidden\|kv\|thoughts\|graft"
    assert re.search(rf"--protocol +{names}\s+What a message carries[^-]*\(default: nl\)", out)
    assert re.search(r"--partial +entropy\|entropy_reversed\|max\|max_reversed\s", out)
    assert re.search(r"--temperature +X \.\.\.\s", out)
    assert re.search(r"--memory +SIZE \.\.\.\s", out) and re.search(r"--layers +N \.\.\.\s", out)
    assert re.search(r"--option +NAME=VALUE \.\.\.\s", out) and re.search(r"--thinking +on\|off\|N\s", out)
    assert re.search(r"--rounds +N [^-]*\(default: 3\)", out)


LIGHT = [
    *(
        ["--help"],
        ["debate", "--help"],
        ["graph", "list"],
        ["debate", "--rounds", "0"],
        ["debate", "--model", "smolm2"],
    ),
    *(["debate", "--protocol", "cypher"], ["debate", "--sample", "splitt"]),
]
READING = [["runs", "show", "a"], ["runs", "show", "c"], ["runs", "compare", "a", "b"], ["graph", "draw", "debate"]]
LOADS = f"""
import sys
from sottovoce.cli.main import main
for calls in {LIGHT}, {READING}:
    for call in calls:
        main(call)
    print("\\nloaded:", *sys.modules)
"""
"""Prints which modules these calls have loaded, all in one process."""


def test_nothing_that_reads_runs_or_draws_loads_torch(call: Call, models: Models, tmp_path: Path) -> None:
    replies = {"agent_1": ["Answer: 22"], "agent_2": ["Answer: 22"]}
    for name in ("a", "b"):
        run_one(task(replies), PayloadStore(tmp_path / "payloads"), folder=tmp_path / name)
    call("single", "2 + 2?", "--model", models.tiny, "--max-tokens", 4, "--save", tmp_path / "c")  # it has payloads

    env = {**os.environ, "SOTTOVOCE_RUNS": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, check=True, text=True, env=env)

    light, reading = ({*line.split()} for line in done.stdout.splitlines() if line.startswith("loaded: "))
    assert {"torch", "transformers", "langgraph", "langchain_core", "networkx", "sympy"} & light == set()
    assert "langgraph" in reading and {"torch", "transformers"} & reading == set()


def test_options_of_a_protocol_are_names_with_values_on_both(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("option: {strength: 2, agent_1.strength: 3}\nlayers: 1\n")

    assert build(Debate, {"option": ["strength=2", "agent_1.strength=3"]}).option == {
        "strength": 2, "agent_1.strength": 3,
    }  # fmt: skip
    built = build(Debate, {"settings": str(file)})
    assert (built.option, built.layers) == ({"strength": 2, "agent_1.strength": 3}, (1,))


def test_the_command_line_wins_over_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("rounds: 5\nmax-tokens: 9\nprotocol: cipher\nmodel: here\ntemperature: [0.5, 1]\n")

    built = build(Debate, {"settings": str(file), "rounds": "2"})

    assert built == Debate(rounds=2, max_tokens=9, protocol="cipher", model=["here"], temperature=[0.5, 1.0])
