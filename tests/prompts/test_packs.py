"""Prompt packs that ship, chosen by name, by a scheme's paper, or by the bundled model."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce import prompts
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.agent import wording
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.prompts.render import Prompts

QUESTION = {"question": "Which river?", "documents": {"agent_1": ["A."], "agent_2": ["B."]}}


@pytest.mark.parametrize("name", prompts.NAMES)
def test_every_pack_that_ships_can_be_read(name: str) -> None:
    assert Prompts(prompts.SHIPPED / name).names() == Prompts().names()


def test_a_pack_is_found_by_name_and_else_by_path(tmp_path: Path) -> None:
    assert Debate().pack_folder("bundled") == prompts.SHIPPED / "bundled"
    assert Debate().pack_folder(str(tmp_path)) == tmp_path


def test_paper_needs_a_set_up_of_the_scheme() -> None:
    with pytest.raises(UsageError, match="there is no setup for nothing"):
        prompts.folder_of("paper", "nothing", "nl")


@pytest.mark.parametrize("kind", ["number", "option", "yes_no", "label", "text"])
@pytest.mark.parametrize("answers", ["short", "sentence"])
def test_steps_change_the_request_for_every_kind_of_answer(kind: str, answers: str) -> None:
    question = {"question": "Which?", "kind": kind, "choices": ["red", "blue"] if kind in ("option", "label") else []}
    on = PromptBuilder(Prompts(), question, None, answers=answers)  # type: ignore[arg-type]
    off = PromptBuilder(Prompts(), question, None, components=frozenset({"answer_description"}), answers=answers)  # type: ignore[arg-type]

    assert on.form() != off.form()
    assert ("Answer:" in on.form()) == ("Answer:" in off.form()) == (answers == "short")


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
