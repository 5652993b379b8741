"""Tests of runs in which a person replies for an agent, stops, and continues."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.live import person
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.single import Single
from sottovoce.nodes.question import Question
from sottovoce.nodes.watch import Intervention
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.runner import resume_run, run_all
from tests.cli.conftest import Call, Models
from tests.graphs.support import Once
from tests.runs.single import Task, run_one
from tests.runs.support import QUESTION

ASKED: dict[str, Any] = {
    "agent": "agent_1",
    "act": "answer",
    "turns": [["user", "1 + 1?"]],
    "begun": "",
    "why": "it looks wrong",
}


def task() -> Task:
    settings = Debate(agents=2, rounds=1, intervention="human")
    return Task("debate", settings, QUESTION, models=ScriptedChatModel(["The answer is 21."] * 2), watch=watch())


def watch() -> Once:
    return Once("human", "agent_1", 0)


def test_earlier_replies_of_a_person_who_left_are_kept(tmp_path: Path) -> None:
    settings, replies = Debate(agents=2, rounds=1, intervention="human"), ["2"]

    def reply(value: Any) -> str:
        if not replies:
            raise SottovoceError("stdin has ended")
        return f"The answer is {replies.pop()}."

    def both(run: Any, state: Any, messages: Any) -> Intervention:
        return Intervention("human", "unsure")

    task = Task("debate", settings, QUESTION, models=ScriptedChatModel(["21"] * 2), watch=both)
    with pytest.raises(SottovoceError, match="stdin has ended"):
        run_one(task, PayloadStore(tmp_path / "p"), folder=tmp_path / "run", person=reply)
    replies.append("3")
    run = resume_run(load_run(tmp_path / "run"), models=ScriptedChatModel())
    run_all(run, settings, PayloadStore(tmp_path / "p"), models=ScriptedChatModel(), watch=both, person=reply)

    said = [(message.agent, message.text) for message in run.only.messages if message.source == "human"]
    assert said == [("agent_1", "The answer is 2."), ("agent_2", "The answer is 3.")]


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
def test_a_stop_does_not_wait_for_a_person(tmp_path: Path) -> None:
    released, late = threading.Event(), list[bool]()

    def silent(value: Any) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        late.append(not released.wait(600))
        return "The answer is 22."

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_one(task(), PayloadStore(tmp_path), person=silent)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not late
    released.set()


def test_a_run_that_nobody_can_answer_in_is_refused_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nobody can reply here"):
        run_one(task(), PayloadStore(tmp_path))


def test_a_person_types_a_reply(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("It is 2.\n"))

    assert person(hint=lambda: "type more")(ASKED) == "It is 2."
    shown = capsys.readouterr()
    assert "You reply for agent_1 (answer): it looks wrong." in shown.err and "1 + 1?" in shown.err and not shown.out
    with pytest.raises(SottovoceError, match="stdin has ended; type more"):
        person(hint=lambda: "type more")(ASKED)


def test_people_are_asked_one_question_at_a_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    questions: list[Question] = [{**QUESTION, "id": str(n), "question": f"What is {n}?"} for n in range(3)]
    settings = Single(human=["agent_1"])
    run = Run.start(new_manifest("single", settings, questions), questions, tmp_path / "run")
    monkeypatch.setattr(sys, "stdin", io.StringIO("22\n22\n"))
    run_all(run, settings, run.store(), person=person(hint=lambda: "type more"))
    assert [record.status for record in run.records.values()].count("done") == 2

    monkeypatch.setattr(sys, "stdin", io.StringIO('"""\nSo.\nThe answer is 21.\n"""\n'))
    again = resume_run(load_run(tmp_path / "run"))
    run_all(again, settings, again.store(), person=person(hint=lambda: "type more"))

    said = [record.messages[0].text for record in again.records.values()]
    assert sorted(said) == [
        "22",
        "22",
        "So.\nThe answer is 21.",
    ]
    assert not capsys.readouterr().out


def test_workers_ask_nobody(tmp_path: Path) -> None:
    settings = Single(human=["agent_1"])
    run = Run.start(new_manifest("single", settings, [QUESTION]), [QUESTION], tmp_path / "run")
    with pytest.raises(UsageError, match="workers cannot ask a human"):
        run_all(run, settings, PayloadStore(tmp_path), limits=Limits(workers="ray"), person=lambda _: "22")


FEW = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 1)


def test_a_person_debates_with_a_model(call: Call, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("The answer is 4.\n"))

    shown = call("debate", "2 + 2?", "--model", models.tiny, *FEW, "--protocol", "cipher", "--human", "agent_2")

    assert shown.code == 0 and "agent_2: 4" in shown.out and "You reply for agent_2" in shown.err
    assert "note: agent_1 hears agent_2 in words: one of them is a person" in shown.out


def test_a_person_approves(call: Call, models: Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = ("debate", "2 + 2?", "--model", models.tiny, *FEW, "--approve", "answer", "--save")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    assert "Enter approves, - rejects" in call(*given, tmp_path / "passed").err
    monkeypatch.setattr(sys, "stdin", io.StringIO("The answer is 5.\n-\n"))
    shown = call(*given, tmp_path / "changed").out

    assert "withdrawn: a person rewrote it" in shown and "agent_2: abstains" in shown
    assert "1 re-run; 0 findings" in call("runs", "verify", tmp_path / "passed", "--trust-paths").out
    assert "0 re-run; 0 findings" in call("runs", "verify", tmp_path / "changed", "--trust-paths").out
