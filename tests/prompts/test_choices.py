"""Choices and targets are checked before anybody speaks."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.nodes.question import check_question
from sottovoce.prompts.kinds import lettered
from sottovoce.prompts.kinds.option import bare

NUMBER = "expected a number, such as 22, -3.5, 2/3, 1,234 or $5.00"
RED_BLUE = ["red", "blue"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"kind": "option"}, "there are too few options: none; give at least two choices"),
        ({"kind": "option", "choices": ["red"]}, "there are too few options: 'red'; give at least two choices"),
        (
            {"kind": "option", "choices": ["red", " "]},
            "choices contain an empty one: ['red', ' ']; expected a text for each",
        ),
        ({"kind": "option", "choices": ["red", "Red "]}, "choices contain 'Red' twice; expected each once"),
        (
            {"kind": "option", "choices": RED_BLUE, "target": "C"},
            "target is 'C'; expected a letter from A to B, or one of the choices: ['red', 'blue']",
        ),
        (
            {"kind": "option", "choices": ["1", "2", "4", "3"], "target": "2"},
            "target is '2', a choice and also the number of another one; give its letter",
        ),
        (
            {"kind": "label", "choices": RED_BLUE, "target": "green"},
            "target is 'green'; expected one of the labels: 'red', 'blue'",
        ),
        ({"kind": "yes_no", "target": "maybe"}, "target is 'maybe'; expected yes or no"),
        ({"kind": "number", "target": "nan"}, f"target is 'nan'; {NUMBER}"),
        ({"kind": "number", "target": "5 apples"}, f"target is '5 apples'; {NUMBER}"),
        ({"kind": "text", "target": " "}, "target is ' '; expected a few words"),
    ],
)
def test_a_question_that_cannot_be_answered_rightly_is_refused_in_one_line(
    given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_question({"question": "Which?", **given}, None)  # type: ignore[typeddict-item]

    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "option", "choices": ["C++", "C#", "-7", "7"], "target": "D"},
        {"kind": "option", "choices": RED_BLUE, "target": "blue"},
        {"kind": "option", "choices": ["6", "7", "8"], "target": "7"},
        {"kind": "option", "choices": ["1", "2", "3"], "target": "2"},
        {"kind": "label", "choices": ["SUPPORTS", "REFUTES"], "target": "supports"},
        {"kind": "label", "target": "whatever"},
        {"kind": "yes_no", "target": "Yes"},
        *({"kind": "number", "target": each} for each in ("-3.5e2", "1,200", "2/3", "$5.00", "12%")),
        {"kind": "yes_no", "target": "true"},
    ],
)
def test_what_can_be_answered_is_taken(given: dict[str, Any]) -> None:
    check_question({"question": "Which?", **given}, None)  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("choices", "plain"),
    [
        (["(A) red", "(B) blue"], RED_BLUE),
        (["A)red", "B)blue"], RED_BLUE),
        (["1. red", "2. blue"], RED_BLUE),
        (["a. red", "b. blue"], RED_BLUE),
        (["(1) red", "(2) blue"], RED_BLUE),
        (["1.5", "2.5"], ["1.5", "2.5"]),
        (["D. H. Lawrence", "B. Russell"], ["D. H. Lawrence", "B. Russell"]),
        (["1. red", "3. blue"], ["1. red", "3. blue"]),
        ([], []),
    ],
)
def test_choices_are_known_without_the_letters_or_numbers_that_they_bring(choices: list[str], plain: list[str]) -> None:
    assert bare(choices) == plain
    assert lettered(choices) == [f"({letter}) {choice}" for letter, choice in zip("ABC", plain, strict=False)]
