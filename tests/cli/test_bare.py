"""Schemes without options: a right answer on the bundled model, or one line that names another model."""

from __future__ import annotations

import re
import shlex

import pytest

from sottovoce.core.errors import command
from sottovoce.datasets.trained import check_trained
from sottovoce.graphs import schemes
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.whodunit import WhoDunit
from sottovoce.prompts import TRAINED
from tests.cli.conftest import Call
from tests.tables import some

TAUGHT = TRAINED["bundled"].schemes
OFFERED = re.compile(r"`(.+?)`")
SPOKEN = [each.command for each in schemes() if each.name in TAUGHT]


@pytest.mark.parametrize("name", some(SPOKEN, "debate"))
def test_a_bare_scheme_of_the_bundled_model_answers_rightly(call: Call, name: str) -> None:
    answer = call(name)

    assert (answer.code, answer.err) == (0, "")
    assert "right: the answer is 1533" in answer.out


def test_another_bare_scheme_offers_a_command_whose_model_can_play_it(call: Call) -> None:
    for name in {each.command for each in schemes()} - {*SPOKEN}:
        answer = call(name)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.count("\n") == 1
        assert f"was not trained for {name}" in answer.err
        pull, first = (shlex.split(each)[1:] for each in OFFERED.findall(answer.err))  # no model is pulled here
        assert pull == ["models", "pull", "smollm2"]
        assert call(*first).err.startswith("sottovoce: model 'smollm2' is not on this machine yet")  # all else is right


def test_a_scheme_may_be_typed_with_an_underscore(call: Call) -> None:
    assert call("self_consistency", "--help") == call("self-consistency", "--help")


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        ("brief", "brief --model smollm2 --sample briefing/1 --max-tokens 48"),
        ("pipeline --sample=facts/3 -- Who?", "pipeline --sample=facts/3 --model smollm2 -- 'Who?'"),
        (
            "step ia --protocol sde",
            "step ia --protocol sde --model smollm2 --sample facts/20 --guide on --rounds 2 --max-tokens 48",
        ),
    ],
)
def test_an_offered_command_keeps_what_was_typed(call: Call, arguments: str, offered: str) -> None:
    assert f" {offered}`" in call(*arguments.split()).err


def test_who_names_the_bundled_model_gets_it() -> None:
    check_trained("whodunit", WhoDunit(model=["bundled"]))
    check_trained("debate", Debate(prompts="paper", model=["bundled"]))


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
