"""Data sets with a context that only senders read: rows of our own in each published layout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.single import Single
from sottovoce.nodes.question import passages_of
from sottovoce.prompts import kinds
from tests.datasets.test_datasets import read, said
from tests.datasets.test_question_files import lines as file

COUNTRY = {
    "id": 7, "person": "Ilse", "prompt_A": "Ilse is at the Orn Mill.", "prompt_B": "In which country is Ilse?",
    "country": "Norway",
}  # fmt: skip
TIPS = {
    "prompt_A": "Orn AG won a big order. Tarn Ltd lost its best client.", "prompt_B": "Orn AG or Tarn Ltd?",
    "options": ["Orn AG", "Tarn Ltd"], "label": "Orn AG",
}  # fmt: skip
LONG = {
    "_id": "a1", "input": "Who built the mill?", "answers": ["Tobias Renn", "Renn"], "length": 12, "all_classes": None,
    "context": "Passage 1:\nThe mill\nIt was built by Renn.\nIt burned.\n\nPassage 2:\nThe Orn\nA river.\n",
    "dataset": "2wikimqa", "language": "en",
}  # fmt: skip
SCROLLS = {"id": "q1", "pid": "q1_0", "input": "Which corpus?\n\nWe read OrnBank.\n\nIt is old.", "output": "OrnBank"}
MUSIQUE = {
    "id": "2hop__1_2", "question": "Where was the builder born?", "answer": "Velda", "answer_aliases": ["Velda Town"],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Mill", "paragraph_text": "Renn built it.", "is_supporting": True},
        {"idx": 1, "title": "Orn", "paragraph_text": "A river.", "is_supporting": False},
        {"idx": 2, "title": "Renn", "paragraph_text": "Born in Velda.", "is_supporting": True},
    ],
}  # fmt: skip
HOTPOT = {
    "_id": "h1", "question": "Who?", "answer": "Tom", "supporting_facts": [["Tom", 1], ["Ann", 0], ["Tom", 9]],
    "context": [["Tom", ["Tom is a cat. ", "He purrs."]], ["Ann", ["Ann is not."]]],
}  # fmt: skip
MILL = [{"title": "The mill", "text": "It was built by Renn.\nIt burned."}, {"title": "The Orn", "text": "A river."}]


@pytest.mark.parametrize(
    ("name", "row", "id", "targets", "documents"),
    [
        ("countries", COUNTRY, "countries/7", ["Norway"], [{"text": "Ilse is at the Orn Mill."}]),
        ("tipsheets", TIPS, "tipsheets/0", ["Orn AG"], [{"text": TIPS["prompt_A"]}]),
        ("2wikimqa", LONG, "2wikimqa/a1", ["Tobias Renn", "Renn"], MILL),
        ("musique", LONG, "musique/a1", ["Tobias Renn", "Renn"], MILL),
        ("multifieldqa_en", {**LONG, "context": "One text.\nPassage 1:\nof it"}, "multifieldqa_en/a1",
         ["Tobias Renn", "Renn"], [{"text": "One text.\nPassage 1:\nof it"}]),
        ("qasper", {**LONG, "context": "A paper."}, "qasper/a1", ["Tobias Renn", "Renn"], [{"text": "A paper."}]),
        ("qasper", SCROLLS, "qasper/q1", ["OrnBank"], [{"text": "We read OrnBank.\n\nIt is old."}]),
        ("musique", MUSIQUE, "musique/2hop__1_2", ["Velda", "Velda Town"],
         [{"title": "Mill", "text": "Renn built it."}, {"title": "Orn", "text": "A river."},
          {"title": "Renn", "text": "Born in Velda."}]),
        ("musique/support", MUSIQUE, "musique/support/2hop__1_2", ["Velda", "Velda Town"],
         [{"title": "Mill", "text": "Renn built it."}, {"title": "Renn", "text": "Born in Velda."}]),
        ("hotpotqa/support", HOTPOT, "hotpotqa/support/h1", ["Tom"], [{"text": "He purrs."}, {"text": "Ann is not."}]),
    ],
)  # fmt: skip
def test_a_row_is_read_as_it_was_published(
    tmp_path: Path, name: str, row: dict[str, Any], id: str, targets: list[str], documents: list[dict[str, str]]
) -> None:
    (question,) = read(f"{name}:{file(tmp_path, row)}").questions
    assert (question["id"], [question["target"], *question.get("aliases", [])]) == (id, targets)
    assert passages_of(question, None) == documents
    assert all(kinds.right(target, question) for target in targets)
    assert not any(target in question["question"] for target in targets) or name == "tipsheets"


def test_other_columns_of_the_hub_and_of_kvcomms_copy_are_read_alike(tmp_path: Path) -> None:
    copy = {("question" if name == "input" else name): value for name, value in LONG.items()}
    hub = {**HOTPOT, "supporting_facts": {"title": ["Tom"], "sent_id": [0]},
           "context": {"title": ["Tom"], "sentences": [["Tom is a cat. ", "He purrs."]]}}  # fmt: skip
    assert read(f"2wikimqa:{file(tmp_path, copy)}").questions[0]["question"] == "Who built the mill?"
    (question,) = read(f"hotpotqa/support:{file(tmp_path, hub)}").questions
    assert passages_of(question, None) == [{"text": "Tom is a cat."}]


def test_all_agents_but_the_last_are_dealt_the_documents(tmp_path: Path) -> None:
    options = QuestionOptions.model_validate({"questions": f"2wikimqa:{file(tmp_path, LONG)}"})
    (three,), _ = questions_of(options, Debate(agents=3))
    (one,), _ = questions_of(options, Single())
    assert three["documents"] == {"agent_1": MILL[:1], "agent_2": MILL[1:], "agent_3": []}
    assert one["documents"] == {"agent_1": MILL}


def test_unanswerable_rows_of_musique_are_passed_over(tmp_path: Path) -> None:
    path = file(tmp_path, {**MUSIQUE, "answerable": False}, MUSIQUE)
    assert [each["id"] for each in read(f"musique:{path}").questions] == ["musique/2hop__1_2"]


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("countries", {**COUNTRY, "country": ""}, "country is ''; expected a text"),
    ("tipsheets", {**TIPS, "label": "Velda"}, "label is 'Velda'; expected one of the options: 'Orn AG', "),
    ("2wikimqa", {**LONG, "answers": "Renn"}, "answers is 'Renn'; expected a list of texts"),
    ("qasper", {**SCROLLS, "input": "Which corpus?"}, "input has no empty line; expected the question, an empty"),
    ("musique", {**MUSIQUE, "paragraphs": [{"title": "Orn"}]}, "paragraphs do not all have title, paragraph_text"),
    ("musique", {**MUSIQUE, "paragraphs": MUSIQUE["paragraphs"][1:2]}, "no paragraph is_supporting; expected at"),  # type: ignore[index]
    ("hotpotqa/support", {**HOTPOT, "supporting_facts": ["Tom"]}, "supporting_facts are not [title, number] pairs"),
    ("hotpotqa/support", {**HOTPOT, "supporting_facts": [["Eva", 0]]}, "no supporting fact is in the context"),
]  # fmt: skip
"""Rows that `test_published_rows` finds refused."""


# TMATH

TMATH = {
    "problem": "Ann has 7 apples and eats 2. How many are left?", "level": "Level 1", "type": "Algebra",
    "solution": "7 - 2 = $\\boxed{5}$ apples are left.", "socratic_questions": "How many does she eat?",
}  # fmt: skip


def test_problems_with_hints_are_read_from_folders_and_from_a_list(tmp_path: Path) -> None:
    """Senders read the hints; the solution is compared with replies, and is no target."""
    listed = {**TMATH, "socratic_questions": ["How many has she?", " How many does she eat?"]}
    for folder, name, row in (("hint_geometry", "2", TMATH), ("hint_algebra", "10", listed)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.json").write_text(json.dumps(row, indent=1), encoding="utf-8")
    found = read(f"tmath:{tmp_path}")
    first, second = found.questions

    assert [first["id"], second["id"]] == ["tmath/hint_algebra/10", "tmath/hint_geometry/2"]
    assert passages_of(first, None) == [{"text": "How many has she?\nHow many does she eat?"}]
    assert passages_of(second, None) == [{"text": "How many does she eat?"}]
    assert (second["question"], second["printed_target"]) == (TMATH["problem"], TMATH["solution"])
    assert "target" not in second
    assert found.total == 2 and found.rows[1].metadata == {"level": "Level 1", "type": "Algebra"}
    (tmp_path / "all.json").write_text(json.dumps([TMATH, listed]), encoding="utf-8")
    assert [each["id"] for each in read(f"tmath:{tmp_path / 'all.json'}").questions] == ["tmath/0", "tmath/1"]
    before = found.digest
    (tmp_path / "hint_geometry" / "2.json").rename(tmp_path / "hint_geometry" / "3.json")
    assert read(f"tmath:{tmp_path}").digest != before


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"problem": "?"}', "file 1 of tmath folder '.*': hint_algebra/1: found no 'socratic_questions' among"),
        ("[1]", "file 1 of tmath folder '.*': found list; expected one JSON object"),
        ("{", "file 1 of tmath folder '.*': hint_algebra/1 is not JSON"),
        (None, r"tmath folder '.*' contains no \*/\*.json; expected files with"),
    ],
)
def test_a_broken_file_of_a_folder_is_named(tmp_path: Path, text: str | None, error: str) -> None:
    (tmp_path / "hint_algebra").mkdir()
    if text is not None:
        (tmp_path / "hint_algebra" / "1.json").write_text(text, encoding="utf-8")
    assert re.search(error, said(f"tmath:{tmp_path}"))
