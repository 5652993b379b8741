"""What is asked, and the passages that agents know: with titles, ids and numbers, shared or private."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.nodes.question import Passage, check_question, passage_of, passages_of, question_id, shown
from tests.tables import each_row

TITLED: Passage = {"text": "Mia has 3.", "title": "Mia", "id": "d7", "source": "index"}


@each_row(
    ("passage", "number", "read"),
    [
        ({"text": "Mia has 3."}, None, "Mia has 3."),
        ({"text": "Mia has 3."}, 2, "[2] Mia has 3."),
        (TITLED, None, "Mia: Mia has 3."),
        (TITLED, 10, "[10] Mia: Mia has 3."),
        ({"text": "Mia has 3.", "title": ""}, 0, "[0] Mia has 3."),
    ],
)
def test_a_passage_is_read_with_its_number_and_title_as_far_as_it_has_them(
    passage: Passage, number: int | None, read: str
) -> None:
    assert shown(passage, number) == read


def test_a_plain_text_is_a_passage_without_a_title() -> None:
    assert passage_of("Mia has 3.") == {"text": "Mia has 3."}
    assert passage_of(TITLED) is TITLED


def test_who_knows_all_reads_each_passage_once_in_the_agents_order() -> None:
    other: Passage = {**TITLED, "id": "d8"}
    documents: Any = {"zoe": [TITLED, "Tom has 5."], "bob": [{"text": "Tom has 5."}, other]}

    assert passages_of({"question": "?", "documents": documents}, None) == [TITLED, {"text": "Tom has 5."}, other]


@each_row(
    ("documents", "expected"),
    [
        ([{"title": "Mia"}], "documents.0"),
        ("Mia has 3.", "documents is 'Mia has 3.': "),
        ({"eve": ["Mia has 3."]}, "unknown agent among the documents: 'eve'; choose from: bob, zoe"),
    ],
)
def test_what_is_no_passage_is_refused_in_one_line(documents: Any, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_question({"question": "?", "documents": documents}, ["bob", "zoe"])
    assert expected in str(refused.value) and "\n" not in str(refused.value)


def test_a_question_without_an_id_is_named_by_a_digest_of_its_text() -> None:
    assert question_id({"question": "?", "id": "q1"}) == "q1"
    assert question_id({"question": "?"}) == question_id({"question": "?", "target": "1"}) == "8a8de823d5ed"
    assert question_id({"question": "!"}) != question_id({"question": "?"})
