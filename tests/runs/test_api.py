"""Runs from Python: questions asked, runs opened, and both read as tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.graphs import SCHEMES
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.graphs.single import Single
from sottovoce.runs.api import open_run, run_questions
from tests.graphs.toys.palaver import SCHEME as PALAVER

SUM: Any = {"question": "What is 14 + 3 * 5 - 7?", "target": "22"}
OTHER = "What is 2 + 2?"
SETTINGS = {"agents": 2, "rounds": 1}


def scripted(*replies: str) -> ScriptedChatModel:
    return ScriptedChatModel(list(replies) or ["The answer is 22."] * 8)


def test_a_text_and_questions_with_targets_are_asked_and_read_as_a_table() -> None:
    table = run_questions("debate", [SUM, OTHER], SETTINGS, models=scripted()).to_pandas()

    assert list(table["question"]) == [SUM["question"], OTHER] and list(table["answer"]) == ["22", "22"]
    assert table["score"].iloc[0] == 1 and table["score"].isna().iloc[1]
    assert not table["failed"].any() and set(table["calls"]) == {2}


def test_every_question_is_asked_under_each_seed_and_messages_are_a_table_too() -> None:
    run = run_questions("single", SUM, Single(), models=scripted(), seeds=[1, 2])
    messages = run.messages_to_pandas()

    assert list(run.to_pandas()["seed"]) == [1, 2]
    assert list(messages["text"]) == ["The answer is 22."] * 2 and list(messages["agent"]) == ["agent_1"] * 2
    assert len(run.records) == len(run.results) == 2 and run.scheme == "single"


def test_a_run_in_a_folder_is_opened_again_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    first = run_questions("debate", [SUM], SETTINGS, models=scripted(), folder=tmp_path / "run")
    again = run_questions("debate", [SUM], SETTINGS, models=scripted("never asked"), folder=tmp_path / "run")
    opened = open_run(tmp_path / "run")

    assert first.folder == opened.folder == tmp_path / "run" and opened.settings["agents"] == 2
    assert first.to_pandas().equals(again.to_pandas()) and first.to_pandas().equals(opened.to_pandas())
    assert opened.messages_to_pandas().equals(first.messages_to_pandas())


def test_what_is_not_over_in_a_folder_goes_on(tmp_path: Path) -> None:
    settings, first_round = {"agents": 2, "rounds": 2}, ["The answer is 22."] * 2
    short = run_questions("debate", [SUM], settings, models=scripted(*first_round), folder=tmp_path)
    assert list(short.to_pandas()["failed"]) == [True] and "the script" in short.to_pandas()["error"].iloc[0]

    whole = run_questions("debate", [SUM], settings, models=scripted(), folder=tmp_path)
    assert list(whole.to_pandas()["answer"]) == ["22"]


def test_a_scheme_of_one_s_own_is_asked_by_its_record() -> None:
    try:
        run = run_questions(PALAVER, SUM, {"agents": 2, "rounds": 1}, models=scripted())
        assert run.scheme == "palaver" and run.results[0].answer == "22"
        assert set(run.messages_to_pandas()["act"]) == {"speak"}
    finally:
        SCHEMES._known.pop("palaver", None)


@pytest.mark.parametrize(
    ("scheme", "questions", "settings", "line"),
    [
        ("debat", SUM, None, "unknown scheme 'debat'; did you mean 'debate'"),
        ("debate", "mine.jsonl", None, "the question is 'mine.jsonl', the name of a file"),
        ("debate", [7], None, "a question is 7; expected a text"),
        ("debate", [SUM, SUM], None, "two questions have the id"),
        ("debate", SUM, {"agnets": 2}, "agnets"),
        ("debate", SUM, Single(), "the settings are Single; this graph expects Debate"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(scheme: str, questions: Any, settings: Any, line: str) -> None:
    with pytest.raises(UsageError) as refused:
        run_questions(scheme, questions, settings, models=scripted())
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_rows_and_files_with_columns_of_their_own_are_asked(tmp_path: Path) -> None:
    rows = [{"prompt": "1 + 1?", "gold": 2, "note": "x"}, {"prompt": "2 + 3?", "gold": 5}]
    (tmp_path / "mine.csv").write_text("prompt,gold\n1 + 1?,2\n")
    columns = {"question": "prompt", "target": "gold"}

    listed = run_questions("single", rows, models=scripted(), columns=columns)
    file = run_questions("single", tmp_path / "mine.csv", models=scripted(), columns=columns)

    assert list(listed.to_pandas()["target"]) == ["2", "5"] and list(file.to_pandas()["question"]) == ["1 + 1?"]
    for wrong, said in (
        ({"qestion": "prompt"}, "unknown field of a question"),
        ({"id": "note"}, "found no 'question'"),
    ):
        with pytest.raises(UsageError, match=said):
            run_questions("single", rows, models=scripted(), columns=wrong)


@pytest.mark.parametrize(("terminal", "progress"), [(True, True), (True, False), (False, True)])
def test_a_terminal_sees_how_many_discussions_are_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool, progress: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)

    run_questions("single", [SUM, OTHER], models=scripted(), progress=progress)

    shown = capsys.readouterr().err.rpartition("\r")[2]
    assert ("single: 100%" in shown and "2/2" in shown and "100% right" in shown) == (terminal and progress)
    assert shown == "" or terminal


def test_a_notebook_shows_results_transcripts_decisions_and_messages_with_texts_escaped() -> None:
    model = scripted("<script>x</script> The answer is 22.", *["The answer is 22."] * 7)
    results = run_questions("debate", [SUM, OTHER], SETTINGS, models=model)
    state = create_debate(Debate(agents=2, rounds=1), models=scripted()).compile().invoke(SUM)

    pages = [each._repr_html_() for each in (results, results.records[0], state["decision"], state["board"])]

    assert all("<script>" not in page for page in pages) and "&lt;script&gt;x&lt;/script&gt;" in pages[0]
    assert (
        pages[0].count("<details>") == 2 and "agent_2" in pages[1] and ">22<" in pages[2] and "agent_1: 22" in pages[2]
    )
    assert "agent_1" in pages[3] and "The answer is 22." in state["messages"]._repr_html_()
    assert state["decision"] == {**state["decision"]} and json.loads(json.dumps(state["board"])) == state["board"]
