"""Tests of `step`: a discussion runs one step at a time, from a pipe or a terminal."""

from __future__ import annotations

import io
import sys
from typing import Any, cast

import pytest
from pydantic import Field

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.cli.stepper import Session, Stops
from sottovoce.core.errors import EngineError, UsageError
from sottovoce.graphs import scheme
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import current_messages
from sottovoce.report.tables import console_of
from tests.cli.conftest import Call, Models
from tests.graphs.support import NEEDED, QUESTION
from tests.nodes.test_monitor_node import SCRIPTS, model_of

ASKED = cast(Question, QUESTION)
FEW = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 1)


class Broken(ScriptedChatModel):
    """Fails at its first call."""

    fails: list[bool] = Field(default_factory=lambda: [True])

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        if self.fails:
            self.fails.pop()
            raise EngineError("logits were not finite")
        return super()._generate(*args, **kwargs)


def stops(name: str, model: Any = None, answer: Any = None, **settings: Any) -> Stops:
    """A scripted discussion before its first step."""
    found = scheme(name)
    chosen = found.settings(**SCRIPTS[name][0] | settings)
    return Stops(found.create(chosen, models=model or model_of(name), **NEEDED.get(name, {})), ASKED, answer)


def test_a_discussion_is_stepped_by_a_pipe(call: Call, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["", "next", "next", "edit agent_1 The answer is 4.", "bak", "back", "fork 4", "state", "history", "go"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(typed) + "\n"))

    shown = call("step", "debate", "2 + 2?", "--model", models.tiny, *FEW, "--protocol", "cipher")

    lines = shown.out.splitlines()
    assert shown.code == 0 and not shown.err and lines[:2] == ["2 + 2?", "stop 0: next: opening"]
    assert not any(line.startswith("messages") for line in lines)  # they stand there already
    assert "round: -1 -> 0" in lines and "edited since, heard in words" in shown.out
    assert any(line.startswith("unknown command 'bak'; did you mean 'back'? Choose from: ") for line in lines)
    assert "* stop 4: the message of agent_1 was edited; next: close_round (from stop 3)" in lines
    assert "agent_1 (human) in round 1 (answer): The answer is 4." in lines
    assert lines[-1] == "ended at stop 6: decide ran; the discussion is over"


def test_people_who_take_part_are_asked_within_a_step() -> None:
    asked = list[str]()

    def answer(value: Any) -> Any:
        asked.append(value["agent"])
        return {"approve": True} if "approve" in value else "The answer is 21."

    stepped = stops("debate", answer=answer, agents=2, rounds=1, human=["agent_2"], approve=["answer"])
    while stepped.current.next:
        stepped.next()

    assert asked == ["agent_2", "agent_1"]
    assert [each["answer"] for each in stepped.values["decision"]["votes"]] == ["22", "21"]


@pytest.mark.parametrize("approve", [[], ["answer"]])
def test_an_edit_beside_others_leaves_what_runs_next_and_a_branch_leaves_what_it_left(approve: list[str]) -> None:
    stepped = stops("debate", answer=lambda value: {"approve": True}, agents=3, rounds=1, approve=approve)
    while not stepped.values.get("board"):
        stepped.next()
    spoken = stepped.current

    stepped.edit("agent_2", "The answer is 5.")
    assert stepped.current.next == spoken.next
    assert [(each.source, each.text) for each in current_messages(stepped.values)][1] == ("human", "The answer is 5.")  # type: ignore[arg-type]
    stepped.next()
    stepped.next()
    assert [each["answer"] for each in stepped.values["decision"]["votes"]] == ["22", "5", "22"]

    stepped.fork(spoken.number)
    stepped.next()
    stepped.next()
    assert [each["answer"] for each in stepped.values["decision"]["votes"]] == ["22", "22", "22"]


def test_a_failed_step_can_be_tried_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model = Broken(replies={"": ["The answer is 22."]})
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n\n\ngo\nquit\nnext\n"))

    Session(console_of(), stops("debate", model, agents=1, rounds=1)).run()

    lines = capsys.readouterr().out.splitlines()
    assert any("agent_1: logits were not finite" in line for line in lines)
    assert lines[-1] == "ended at stop 5: decide ran; the discussion is over"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("edit agent_1 5", "no agent has said anything yet; continue with `next`"),
        ("back", "this is the first stop; there is no earlier one"),
        ("fork 7", "fork is 7; the stops are 0 to 0"),
        ("fork " + "9" * 5000, "fork is '99999999999999999999'; expected a stop's number"),
        ("next\x1b[2J", "unknown command"),
    ],
)
def test_what_cannot_be_done_is_told(line: str, told: str) -> None:
    session = Session(console_of(), stops("single", ScriptedChatModel(["22"])))
    with pytest.raises(UsageError) as error:
        session.do(line)
    assert str(error.value).startswith(told)
