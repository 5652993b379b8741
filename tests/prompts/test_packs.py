"""Prompt packs that ship, chosen by name, by a scheme's paper, or by the bundled model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce import prompts
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.agent import wording
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.prompts.render import Prompts

QUESTION = {"question": "Which river?", "documents": {"agent_1": ["A."], "agent_2": ["B."]}}


def test_a_pack_is_found_by_name_and_else_by_path(tmp_path: Path) -> None:
    assert Debate().pack_folder("bundled") == prompts.SHIPPED / "bundled"
    assert Debate().pack_folder(str(tmp_path)) == tmp_path


def test_paper_needs_a_set_up_of_the_scheme() -> None:
    with pytest.raises(UsageError, match="there is no setup for nothing"):
        prompts.folder_of("paper", "nothing", "nl")


@pytest.mark.parametrize("answers", ["short", "sentence"])
def test_steps_change_the_request_for_every_kind_of_answer(answers: Any) -> None:
    for kind in ("number", "option", "yes_no", "label", "text"):
        choices = ["red", "blue"] if kind in ("option", "label") else []
        question: Any = {"question": "Which?", "kind": kind, "choices": choices}
        on = PromptBuilder(Prompts(), question, None, answers=answers).form()
        without_steps = frozenset({"answer_description"})
        off = PromptBuilder(Prompts(), question, None, components=without_steps, answers=answers).form()
        assert on != off and ("Answer:" in on) == ("Answer:" in off) == (answers == "short"), kind


def test_a_pack_that_words_a_kind_of_answer_is_taken_at_its_word(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "text.md").write_text("In one word.", encoding="utf-8")
    prompts = Prompts(tmp_path)

    assert (
        PromptBuilder(prompts, {"question": "Which?", "kind": "text"}, None, answers="short").form() == "In one word."
    )
    assert "Answer:" in PromptBuilder(prompts, {"question": "1 + 1?", "kind": "number"}, None, answers="short").form()


def test_only_a_pack_that_words_the_marked_line_asks_small_models_for_it(tmp_path: Path) -> None:
    small = ScriptedChatModel(wording="sentence")

    assert wording(Debate(prompts="paper"), small) == "short"
    assert wording(Debate(prompts=str(tmp_path)), small) == "sentence"
