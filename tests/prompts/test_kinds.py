"""What all kinds of answers share: forms, comparison, targets, normalisation, and time that no text can take."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sottovoce.nodes.question import Question
from sottovoce.prompts.kinds import KINDS, declines, kind_of, normalise, placeholder, read_reply, right, same, target_of
from sottovoce.prompts.kinds.marks import LONGEST
from sottovoce.prompts.render import BUILT_IN, Prompts


def test_there_is_a_form_for_every_kind_and_no_other() -> None:
    assert sorted(path.stem for path in (BUILT_IN / "answers").glob("*.md")) == sorted(KINDS.names())


def test_a_request_or_a_placeholder_that_is_said_again_is_no_answer() -> None:
    for kind in KINDS.names():
        question: Question = {"question": "?", "kind": kind}
        for steps in (True, False):
            (form,) = Prompts().render(f"answers/{kind}", steps=steps, examples=False, choices=[])
            assert isinstance(form, str)
            assert read_reply(form, question) is read_reply(f"I have 3 facts.\n{form}", question) is None
        assert read_reply(f"Answer: [{placeholder(question)}]", question) in (None, placeholder(question))


SAME: list[tuple[str | None, str | None, str, bool]] = [
    ("22", "22", "number", True),
    ("22", "22.001", "number", True),
    ("0.6667", "0.6666666666666666", "number", True),
    ("22", "22.01", "number", False),
    ("20000", "20001", "number", False),
    ("-7", "7", "number", False),
    ("1e+21", "1e+21", "number", True),
    ("B", "C", "option", False),
    ("yes", "no", "yes_no", False),
    ("a", "the", "label", False),
    ("Not enough info", "not  enough info", "label", True),
    ("The Beatles!", "beatles", "text", True),
    ("apple", "apples", "text", False),
    ("Ca\u00f1on", "can\u0303on", "text", True),
    ("Los Angeles", "Los Angeles, California", "text", True),
    ("Portland, Oregon", "Portland, Maine", "text", False),
    ("the river Orn", "Orn", "text", True),
    ("the mouth of the Orn", "Orn", "text", False),
    ("The sister of Jonas Marsh is a tailor", "tailor", "text", True),
    ("None of them is a tailor", "tailor", "text", False),
    ("Orn or Mirn", "Orn", "text", False),
    ("Orn", "Ornette", "text", False),
    ("Orn", "a long way up the hill beyond the river Orn", "text", False),
    ("C++", "C#", "text", False),
    ("C++", "C", "text", False),
    ("+", "-", "text", False),
    ("-5", "5", "text", False),
    ("1.5", "15", "text", False),
    ("Jean-Paul", "jean-paul", "text", True),
    (None, "22", "number", False),
    (None, None, "text", False),  # two that do not know do not agree
]


def test_when_two_answers_are_the_same() -> None:
    assert [(a, b, kind, same(a, b, kind)) for a, b, kind, _ in SAME] == SAME
    assert [(a, b, kind, same(b, a, kind)) for a, b, kind, _ in SAME] == SAME


RIGHT: list[tuple[str, str, dict[str, Any], bool]] = [
    ("William Shakespeare", "Shakespeare", {}, True),
    ("Shakespeare", "William Shakespeare", {}, False),  # it does not name the target
    ("Shakespeare", "William Shakespeare", {"aliases": ["Shakespeare"]}, True),
    ("He was born in Stratford, as all know", "Stratford", {}, True),
    ("one two three four five six seven Stratford nine", "Stratford", {}, False),
    ("Ada or Eve", "Ada", {}, False),
    ("Ada, Eve, Ida", "Ada", {}, False),
    ("anyone except Ada", "Ada", {}, False),
    ("the father of Ada", "Ada", {}, False),
    ("Ada's father", "Ada", {}, False),
    ("Ada (the painter)", "Ada", {}, True),
    ("Kestrel Bay, Ostmark", "Kestrel Bay", {}, True),
    ("Kestrel Bay, Ostmark", "Ostmark", {}, False),
    ("0.75", "3/4", {"kind": "number"}, True),
    ("0.6667", "2/3", {"kind": "number"}, True),
    ("1234", "1,234", {"kind": "number"}, True),
    ("5", "$5.00", {"kind": "number"}, True),
    ("12", "12%", {"kind": "number"}, True),
    ("yes", "True", {"kind": "yes_no"}, True),
    ("B", "blue", {"choices": ["(A) red", "(B) blue"]}, True),
    ("A", "b", {"choices": ["(A) red", "(B) blue"]}, False),
]


def test_when_an_answer_is_right() -> None:
    asked = [(answer, {"question": "Which?", "target": target, **more}) for answer, target, more, _ in RIGHT]
    assert [right(answer, question) for answer, question in asked] == [is_right for *_, is_right in RIGHT]
    assert not right(None, asked[0][1]) and not right("5", {"question": "?", "kind": "number"})
    assert target_of({"question": "?", "kind": "number", "target": "2/3"}) == "0.6666666666666666"


NORMAL = {"The  Answer, a THE.": "answer", "u.s.a.": "usa", "can\u0303on": "ca\u00f1on", "": "", "theatre": "theatre"}


def test_normalisation_is_squads() -> None:
    assert {text: normalise(text) for text in NORMAL} == NORMAL


DECLINES = {
    "The answer is unknown.": True,
    "Answer: I don't know": True,
    "Mira was born in Kestrel Bay. I do not know on which river it lies.": True,
    r"\boxed{\text{unknown}}": True,
    "Hm.": False,
    "": False,
}


def test_an_abstention_is_told_from_a_text_that_cannot_be_read() -> None:
    assert {text: declines(text, {"question": "?"}) for text in DECLINES} == DECLINES
    assert not declines("Unknown.", {"question": "?", "choices": ["True", "False", "Unknown"]})  # it may be the label


KIND: list[tuple[str, dict[str, Any], str]] = [
    ("What is 14 + 3 * 5 - 7?", {}, "number"),
    ("What is l + y * o?", {}, "number"),
    ("A box holds 12 eggs and 3 are broken. How many are whole?", {}, "number"),
    ("Tickets cost 4 dollars and 9 were sold. What is the total price in dollars?", {}, "number"),
    ("Compute the product of 6 and 7.", {}, "number"),
    ("What is the number of moons of Mars?", {}, "number"),
    ("Should we rewrite our service in Rust?", {}, "yes_no"),
    ("Is 18 + 40 equal to 58?", {}, "yes_no"),
    ("Mira lives in Orn. Does she live by a river?", {}, "yes_no"),
    ("Is this true? Gold is a metal.", {}, "yes_no"),
    ("Could the painter have seen the opera, or not?", {}, "yes_no"),
    ("Is Paris the capital of France or of Spain?", {}, "text"),
    ("What is the capital of France?", {}, "text"),
    ("In which year did the war end?", {}, "text"),
    ("Which is larger, 3/7 or 4/9?", {}, "text"),
    ("What is the value of friendship?", {}, "text"),
    ("Explain why the sky is blue.", {}, "text"),
    ("What is it?", {"choices": ["red", "blue"]}, "option"),
    *(("What is it?", {"target": each}, "number") for each in ("22", "-3.5", "1,234", "$5.00", "12%", "2/3")),
    *(("What is it?", {"target": each}, "yes_no") for each in ("no", "Yes", "true", "FALSE")),
    ("Who won?", {"target": "Montreal"}, "text"),
    ("How many won?", {"target": "Montreal"}, "text"),
    ("What is it?", {"target": "Montreal", "kind": "label"}, "label"),
]


def test_the_kind_of_a_question_is_that_of_its_choices_or_target_or_its_wording() -> None:
    found = [(text, fields, kind_of({"question": text, **fields})) for text, fields, _ in KIND]
    assert found == KIND


SHAPES = [
    *["9", "9,", "9.", "9 ", "9/", "-", "+9", "1,00,", "12 ", "one ", "million ", "\xbd", " ", "\n", "\t", "("],
    *["(A) ", "A ", "A,", "[a]", "[1]", "[", "\\boxed{", "\\boxed{9}", "\\frac{", "\\frac{1}{2}", "\\text{", "$"],
    *["$9", "**", "**a**", "_a", "`", "Answer:", "Answer: ", "answer is ", "The answer\n", "the answer to "],
    *["the answer is ", "not ", "because ", ", not ", "x = ", "yes ", "no ", "yes or no ", "a.", "a. ", "A. "],
    *["?", "? ", "!", '."', "'s ", "end with ", "- ", "#", "#### 9\n", "{", '{"answer": ', "it is "],
    *["I don't know ", "Question:\n", "red ", "red, ", "supports ", "(9", "= ", "9 = ", "either ", "or "],
    *["\u2009123", "0\xb2", "1 234 ", "four: ", "Wait, ", ". Wait ", "<think>", "</think>", "<answer>", "Answer:\n- "],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.names())
def test_a_hostile_text_ends_soon(kind: str) -> None:
    """Each takes up to a third of a second; where time grows as the square of the length, minutes."""
    choices = ["red", "blue"] if kind in ("option", "label") else []
    question: Question = {"question": "Red or blue?", "kind": kind, "choices": choices}
    for shape in SHAPES:
        for said in (shape * (LONGEST // len(shape)), "Answer: " + shape * (100_000 // len(shape)) + "x", shape * 30):
            began = time.process_time()
            read_reply(said, question)

            assert time.process_time() - began < 3, shape  # seconds
