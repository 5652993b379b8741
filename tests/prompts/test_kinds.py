"""What all kinds of answers share: forms, fields, comparison, normalisation, and time that no text can take."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sottovoce.nodes.question import Question
from sottovoce.prompts.kinds import (
    KINDS,
    declines,
    normalise,
    placeholder,
    read,
    read_field,
    read_reply,
    read_value,
    same,
)
from sottovoce.prompts.kinds.prose import LONGEST
from sottovoce.prompts.render import BUILT_IN, Prompts
from tests.shared import shared


@pytest.mark.parametrize("kind", KINDS.names())
def test_a_request_that_is_said_again_is_no_answer(kind: str) -> None:
    for steps in (True, False):
        (form,) = Prompts().render(f"answers/{kind}", steps=steps, choices=[])
        assert isinstance(form, str)

        assert read(form, kind) is None and read(f"I have 3 facts.\n{form}", kind) in (None, "3", "I have 3 facts")


def test_there_is_a_form_for_every_kind_and_no_other() -> None:
    assert sorted(path.stem for path in (BUILT_IN / "answers").glob("*.md")) == sorted(KINDS.names())


@pytest.mark.parametrize(
    ("left", "right", "kind", "agree"),
    [
        ("22", "22", "number", True),
        ("22", "22.000001", "number", True),
        ("22", "22.0001", "number", False),
        ("-7", "7", "number", False),
        ("1e+21", "1e+21", "number", True),
        ("B", "B", "option", True),
        ("B", "C", "option", False),
        ("The Beatles!", "beatles", "text", True),
        ("an apple", "apple", "text", True),
        ("apple", "apples", "text", False),
        ("yes", "no", "yes_no", False),
        (None, "22", "number", False),
        ("22", None, "number", False),
        (None, None, "text", False),  # two that do not know do not agree
    ],
)
def test_when_two_answers_are_the_same(left: str | None, right: str | None, kind: str, agree: bool) -> None:
    assert same(left, right, kind) == same(right, left, kind) == agree


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Answer, a THE.", "answer"),
        ("u.s.a.", "usa"),
        ("ca\u00f1on", "ca\u00f1on"),
        ("", ""),
        ("theatre", "theatre"),
    ],
)
def test_normalisation_is_squads(text: str, normal: str) -> None:
    assert normalise(text) == normal


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_golds_of_gsm8k_are_read_from_their_solutions() -> None:
    for sample in lines(shared("datasets/gsm8k_test_first200.jsonl")):
        gold = sample["answer"].rpartition("#### ")[2].replace(",", "")
        assert same(read(sample["answer"], "number"), gold, "number"), sample["answer"][-80:]
        assert same(read(f"It was 3, so the answer is {gold}.", "number"), gold, "number")


def test_the_golds_of_the_arithmetic_task_are_read_back() -> None:
    for sample in lines(shared("datasets/arithmetic_valid200.jsonl")):
        gold = str(sample["answer"])
        assert read(gold, "number") == read(f"The answer is {gold}.", "number") == gold
        assert read(sample["question"] + f" {gold}", "number") == gold


FIELDS: list[tuple[str, str, str | None]] = [
    ("22", "number", "22"),
    ("The answer is 22.", "number", "22"),
    ("22 apples", "number", "22"),
    ("1,200", "number", "1200"),
    ("5 * 4 = 20", "number", "20"),
    ("1/2", "number", "0.5"),
    ("20 or 22", "number", None),
    ("Neither 20 nor 21", "number", None),
    ("not 22", "number", None),
    ("14 + 8", "number", None),
    ("b", "option", "B"),
    ("(b)", "option", "B"),
    ("B.", "option", "B"),
    ("green", "option", "B"),
    ("Green", "option", "B"),
    ("z", "option", None),
    ("Yes", "yes_no", "yes"),
    ("True", "yes_no", "yes"),
    ("no, it is not", "yes_no", "no"),
    ("yes or no", "yes_no", None),
    ("Red", "label", "red"),
    ("[green]", "label", "green"),
    ("Not enough info", "label", None),
    ("list[int]", "text", "list[int]"),
    ("a\nb", "text", "a b"),
    ("[Paris]", "text", "Paris"),
    ("", "text", None),
]


@pytest.mark.parametrize(("given", "kind", "answer"), FIELDS)
def test_a_field_of_a_form_is_the_answer_as_a_whole(given: str, kind: str, answer: str | None) -> None:
    assert read_value(given, kind, ["red", "green", "blue"]) == answer


@pytest.mark.parametrize("kind", KINDS.names())
def test_the_form_s_own_words_are_no_answer(kind: str) -> None:
    words = placeholder({"kind": kind})
    assert read_field(words, {"kind": kind}) is None and read_field(words.capitalize() + ".", {"kind": kind}) is None
    assert read_field("Close with N.", {"kind": "text", "answer_description": "close with N"}) is None


@pytest.mark.parametrize(
    ("left", "right", "kind", "equal"),
    [
        ("C++", "C#", "text", False),
        ("C++", "C", "text", False),
        ("+", "-", "text", False),
        ("-5", "5", "text", False),
        ("Jean-Paul", "Jean Paul", "text", False),
        ("the Eiffel Tower", "Eiffel tower.", "text", True),
        ("Jean-Paul", "jean-paul", "text", True),
        ("a", "the", "label", False),
        ("Not enough info", "not  enough info", "label", True),
    ],
)
def test_signs_that_tell_answers_apart_are_kept(left: str, right: str, kind: str, equal: bool) -> None:
    assert same(left, right, kind) is equal


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("The answer is unknown.", True),
        ("Answer: I don't know", True),
        ("I don't know.", True),
        ("Mira was born in Kestrel Bay. I do not know on which river it lies.", True),
        (r"\boxed{\text{unknown}}", True),
        ("It is not known to all that the answer is 5.", False),
        ("Hm.", False),
        ("", False),
    ],
)
def test_an_abstention_is_told_from_a_text_that_cannot_be_read(said: str, told: bool) -> None:
    assert declines(said) is told


SHAPES = [
    *["9", "9,", "9.", "9 ", "9/", "-", "+9", "1,00,", "12 ", "one ", "million ", "\xbd", " ", "\n", "\t", "("],
    *["(A) ", "A ", "A,", "[a]", "[1]", "[", "\\boxed{", "\\boxed{9}", "\\frac{", "\\frac{1}{2}", "\\text{", "$"],
    *["$9", "**", "**a**", "_a", "`", "Answer:", "Answer: ", "answer is ", "The answer\n", "the answer to "],
    *["is the answer ", "not ", "because ", ", not ", "x = ", "yes ", "no ", "yes or no ", "a.", "a. ", "A. "],
    *["?", "? ", "!", '."', "'s ", "end with ", "- ", "#", "#### 9\n", "{", '{"answer": ', "it is "],
    *["I don't know ", "Question:\n", "red ", "red, ", "supports ", "(9", "= ", "9 = ", "either ", "or "],
    *["\u2009123", "0\xb2", "1 234 ", "four: ", "Wait, ", ". Wait ", "\\boxed{...}: ", "<answer>"],
    *[", which is, ", "in A ", "is about 1 ", "A or B ", "A, B ", "Agent 1's answer is 2. ", "(A) none "],
    *["from 1900 to 1901 ", '"a" ', "X is Y "],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.names())
def test_a_hostile_text_ends_soon(kind: str) -> None:
    """Each takes up to a third of a second; where time grows as the square of the length, minutes."""
    choices = ["red", "blue"] if kind in ("option", "label") else []
    question: Question = {"question": "Red or blue?", "kind": kind, "choices": choices}
    for shape in SHAPES:
        for said in (shape * (LONGEST // len(shape)), "Answer: " + shape * (100_000 // len(shape)) + "x"):
            began = time.process_time()
            read_reply(said, question)

            assert time.process_time() - began < 3, shape  # seconds
