"""Free questions are answered in sentences: which of them agree, and which name the right answer."""

from __future__ import annotations

import pytest

from sottovoce.nodes.decide import viewpoints
from sottovoce.nodes.state import Vote
from sottovoce.prompts.kinds import read_reply, same
from sottovoce.prompts.kinds.prose import first, sentences

RIVER = "On which river does the town where Mira Dolan was born lie?"
CAPITAL = "What is the capital of France?"
SENTENCE = "The town where Mira Dolan was born lies on the river Orn."


@pytest.mark.parametrize(
    ("question", "left", "other", "agree"),
    [
        (CAPITAL, "Paris because it is large.", "Paris since all roads lead there.", True),
        (CAPITAL, "Answer: Paris", "The capital of France is Paris.", True),
        (CAPITAL, "Paris is the capital of France.", "Lyon is the capital of France.", False),
        (RIVER, SENTENCE, "Orn", True),
        (RIVER, SENTENCE, "Answer: the river Orn", True),
        (RIVER, SENTENCE, "River Orn", True),
        (RIVER, SENTENCE, "Kestrel Bay lies on the river Orn.", True),
        (RIVER, SENTENCE, "The town where Mira Dolan was born lies on the river Tamar.", False),
        (RIVER, "Kestrel Bay", "Kestrel Bay lies on the river Orn.", False),
        (RIVER, "Answer: It does not lie on the river Orn.", SENTENCE, False),
    ],
)
def test_two_sentences_agree_in_what_the_question_has_not_said(
    question: str, left: str, other: str, agree: bool
) -> None:
    asked = {"question": question, "kind": "text"}
    answers = [read_reply(said, asked) for said in (left, other)]

    assert all(answers)
    assert same(answers[0], answers[1], "text", question) is same(answers[1], answers[0], "text", question) is agree


def test_no_reason_stands_in_a_viewpoint() -> None:
    asked = {"question": RIVER, "kind": "text"}
    said = [
        "Orn, because Kestrel Bay lies on it.",
        "Orn since Mira was born in Kestrel Bay",
        SENTENCE,
        "Answer: River Orn",
    ]
    votes: list[Vote] = [{"agent": each, "answer": read_reply(each, asked), "counts": True} for each in said]

    (view,) = viewpoints(votes, asked)

    assert (view.answer, view.agents) == ("Orn", said)


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("Mira Marsh is a freelance graphic designer.", "a freelance graphic designer"),
        ("Mira Marsh works as a sea captain in Ulm.", "a sea captain"),
        ("Mira Marsh is a young potter who works as a potter.", "a young potter"),
        ("Mira Marsh was an award-winning author, born in Ulm.", "an award-winning author"),
        ("Mira Marsh is a baker and lives in Ulm.", "a baker"),
    ],
)
def test_a_job_is_read_with_all_its_words(text: str, job: str) -> None:
    assert read_reply(text, {"question": "What does Mira Marsh work as?", "kind": "text"}) == job


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("Ann Lee is a 19th-century English woman.", None),
        ("The answer is: a 19th-century woman.", None),
        ("Ann Lee is a 26-year-old woman of the 19th-century kind.", "26"),
        ("Ann Lee is 19.", "19"),
    ],
)
def test_a_century_is_no_number_of_a_person(text: str, age: str | None) -> None:
    assert read_reply(text, {"question": "How old is Ann Lee?", "kind": "number"}) == age


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "Dr. No met J. R. R. Tolkien in St. Louis. So what.",
            ["Dr. No met J. R. R. Tolkien in St. Louis.", "So what."],
        ),
        ("3.5 is more.\nIs it?", ["3.5 is more.", "Is it?"]),
        ("B. blue", ["B. blue"]),
        ("\u201cParis.\u201d He left.", ["\u201cParis.\u201d", "He left."]),
        (" \n ", []),
    ],
)
def test_where_sentences_end(text: str, found: list[str]) -> None:
    assert sentences(text) == found
    assert first(text) == (found[0] if found else text)
