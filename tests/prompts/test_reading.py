"""The one rule of reading: what is stated last wins, few words stay as they are, and prose is read only without it."""

from __future__ import annotations

import csv
import json
import string
from typing import Any

import pytest

from sottovoce.prompts.kinds import Reading, normalise, read_field, reading, same
from sottovoce.prompts.kinds.choices import bare
from tests.shared import shared

COLOURS = ["red", "blue", "green", "None of these"]
ASKED: dict[str, dict[str, Any]] = {
    "number": {"question": "How many are left?", "kind": "number"},
    "option": {"question": "Which colour is it?", "kind": "option", "choices": COLOURS},
    "yes_no": {"question": "Do whales breathe air?", "kind": "yes_no"},
    "label": {"question": "Which label fits?", "kind": "label", "choices": ["open", "closed", "Unknown"]},
    "text": {"question": "In which city is the head office of the company?", "kind": "text"},
}
TWO = {"number": ("1", "2"), "option": ("A", "B"), "yes_no": ("yes", "no"), "label": ("open", "closed")}
TWO["text"] = ("Delhi", "Mumbai")


@pytest.mark.parametrize("kind", [*ASKED])
@pytest.mark.parametrize(
    "text",
    [
        "Answer: {0}\n\nAnswer: {1}",
        "The answer is: {0}. The answer is: {1}",
        "The answer is {0}.\nThe answer is {1}.",
        "Answer: {0}\n\nWait, that misses the last step.\n\nAnswer: {1}",
        "\\boxed{{{0}}}\n\nAnswer: {1}",
        "Answer: {0}\n\nSo, after checking: $\\boxed{{{1}}}$",
        "If the answer is {0}, the premise fails. Agent 2's answer is {0}. The answer is {1}.",
        "Answer: {1}\n\nAgent 2 says that the answer is {0}, which I doubt. Agent 3's answer is {0}.",
        "```\nAnswer: {1} [3]\n```",
        "### Answer\n{1}",
        "**Answer:** {1}\n\nLet me know if there is more!",
        "<answer>{1}</answer>",
        "Answer: Let me think.\n\nThe answer is {1}.",
    ],
)
def test_the_last_statement_of_a_reply_s_own_wins(kind: str, text: str) -> None:
    assert reading(text.format(*TWO[kind]), ASKED[kind]).answer == TWO[kind][1]


@pytest.mark.parametrize("kind", [*ASKED])
def test_it_shows_how_an_answer_was_read(kind: str) -> None:
    first = TWO[kind][0]
    hows = {
        "marked": f"So be it.\nAnswer: {first}",
        "boxed": rf"So be it: \boxed{{{first}}}",
        None: "Answer: cannot be determined",
    }
    assert {how: reading(text, ASKED[kind]) for how, text in hows.items()} == {
        "marked": Reading(first, "marked"),
        "boxed": Reading(first, "boxed"),
        None: Reading(None, None),
    }
    assert reading(f'{{"reasons": "So be it.", "answer": "{first}"}}', ASKED[kind]) == Reading(first, "boxed")
    assert reading(rf"\boxed{{...}}: {first}", ASKED[kind]) == Reading(first, "boxed")
    assert reading(f"Answer: {first}. Oops, this answer is wrong.", ASKED[kind]) == Reading(None, None)


def test_prose_is_read_only_without_a_statement() -> None:
    number = ASKED["number"]
    assert reading("So, there are four cups between 10 and 20.", number) == Reading("4", "mined")
    assert reading("There are 7 cups.\nAnswer: 10:30", number) == Reading(None, None)
    assert reading("It is (A) or (B).\nAnswer: purple", ASKED["option"]) == Reading(None, None)
    assert reading("- In 2019 it was 42.\n- In 2018 it was 37.", number) == Reading(None, None)  # facts, no answer
    assert reading("Here is a fact:\n\n- It moved to Delhi.", ASKED["text"]) == Reading(None, None)
    assert reading("One agent says that it is open.", ASKED["label"]) == Reading(None, None)
    assert reading("So I would choose: green.", ASKED["option"]) == Reading("C", "marked")
    assert reading("Answer: Unknown", ASKED["label"]) == Reading("Unknown", "marked")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("495 students * $15.00/student = $7425.00", "7425"),
        ("Each student pays $15.00. 495 students * $15.00/student = $7425.00", "7425"),
        ("The annual pension after 30 years is $52500.", "52500"),
        ("four: 11, 13, 17 and 19", "4"),
        ("There are 4 primes from 10 up to 20.", "4"),
        ("about 12 apples in 3 baskets", "12"),
        ("52 500 dollars", "52500"),
        ("7 425,00 \u20ac", "7425"),
        ("3 \u00d7 10^8 m/s", "300000000"),
        ("minus 5.5", "-5.5"),
        ("minus five", "-5"),
        ("In 3 hours he walks 12 km.", None),
        ("Tom has 12 apples and Ann has 7.", None),
    ],
)
def test_a_result_beats_the_numbers_before_it(said: str, answer: str | None) -> None:
    assert reading(f"It is hot.\n\nAnswer: {said}", ASKED["number"]).answer == answer
    assert read_field(said, ASKED["number"]) in (answer, None)  # of several in a field none may count


WORDINGS = [
    "Answer: {0}", "Answer: ({0}) {1}", "Answer: {0}. {1}", "Answer: {0}, {1}", "The answer is ({0}) {1}.",
    "**Answer: ({0}) {1}**", r"\boxed{{{0}}}", r"$\boxed{{\text{{({0}) {1}}}}}$", "({0}) {1}", "I'd go with {0}: {1}.",
    "Option {0} is correct.", "Answer: {1} ({0})",
]  # fmt: skip


def test_a_letter_of_a_choice_is_that_choice_whatever_its_text_says() -> None:
    aqua = shared("datasets/aqua_test_first60.jsonl").read_text(encoding="utf-8").splitlines()
    mmlu = shared("datasets/mmlu_high_school_mathematics_first60.csv")
    rows = [*csv.reader(mmlu.read_text(encoding="utf-8").splitlines())]
    asked = [(row["question"], row["options"]) for row in map(json.loads, aqua)] + [(row[0], row[1:5]) for row in rows]

    wrong = [
        (text, found)
        for question, choices in asked
        for letter, choice in zip(string.ascii_uppercase, bare(choices), strict=False)
        for text in [wording.format(letter, choice) for wording in WORDINGS]
        if (found := reading(text, {"question": question, "kind": "option", "choices": choices}).answer) != letter
    ]
    assert len(asked) == 120 and not wrong


@pytest.mark.parametrize("choice", ["None of these", "Cannot be determined", "Unknown", "Not enough information"])
@pytest.mark.parametrize("wording", WORDINGS)
def test_a_choice_may_say_that_nothing_is_known(wording: str, choice: str) -> None:
    question = {"question": "Which?", "kind": "option", "choices": ["6", "7", "8", "9", choice]}

    assert reading(wording.format("E", choice), question).answer == "E"
    assert reading("Answer: I don't know", question).answer is None


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Answer: *Letters of Clay* [0].", "Letters of Clay"),
        ("Answer: The answer is Delhi", "Delhi"),
        ("Answer: Delhi, India", "Delhi, India"),
        ("Answer: Delhi (the capital of India)", "Delhi"),
        ("Answer: the head office", "the head office"),  # no word of the question is taken off
        (r"Answer: \text{Delhi}", "Delhi"),
        (r"Answer: $\boxed{Delhi}$", "Delhi"),
        ("answer\nDelhi", "Delhi"),
        ("Answer \u2013 Delhi", "Delhi"),
        ("I agree. [Delhi]", "Delhi"),
        ("Answer: To Kill a Mockingbird", "To Kill a Mockingbird"),
        ("Answer: 3,677 seated", "3,677 seated"),
        ("Answer: The passages do not say.", None),
    ],
)
def test_a_short_answer_is_taken_as_it_stands(said: str, answer: str | None) -> None:
    assert reading(f"The passages name it.\n\n{said}", ASKED["text"]).answer == answer


def test_published_answers_are_read_back_from_a_marked_line() -> None:
    rows = json.loads(shared("datasets/hotpotqa_dev_simplified_first200.json").read_text(encoding="utf-8"))

    read = [reading(f"Answer: {row['answer']}", {"question": row["question"], "kind": "text"}).answer for row in rows]

    assert [normalise(each or "") for each in read] == [normalise(row["answer"]) for row in rows]


WHERE, WHO = "In which city were the games held?", "Who wrote the song?"


@pytest.mark.parametrize(
    ("left", "right", "question", "agree"),
    [
        ("held in Los Angeles, California", "Los Angeles, USA", WHERE, True),
        ("Los Angeles, California", "Los Angeles", WHO, True),
        ("Los Angeles, California", "Los Angeles, California, USA", WHO, True),
        ("Edinburgh, Scotland", "Edinburgh, UK", WHERE, True),
        ("Harrow Mill", "Harrow Mill, Low Elm", WHERE, True),
        ("Portland, Oregon", "Portland, Maine", WHERE, False),
        ("Paris, Texas", "Paris, France", WHERE, False),
        ("Portland, Oregon", "Portland, Canada", WHERE, False),
        ("Max Orr", "Max Orr, Ivo Radan", WHO, False),  # a list
        ("May 8, 1945", "May 8, 1946", WHERE, False),
    ],
)
def test_two_answers_agree_that_name_one_place_with_other_qualifiers(
    left: str, right: str, question: str, agree: bool
) -> None:
    assert same(left, right, "text", question) is same(right, left, "text", question) is agree
