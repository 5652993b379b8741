from __future__ import annotations

import json
from pathlib import Path

import pytest

from sottovoce.prompts.kinds import KINDS, normalise, placeholder, read, read_field, read_value, same
from sottovoce.prompts.render import BUILT_IN, Prompts
from tests.shared import shared

CHOICES = ["(A) blue", "(B) red", "(C) The green one", "(D) 7"]
DIGITS = "9" * 400  # beyond what a float holds


@pytest.mark.parametrize("kind", KINDS.names())
def test_a_request_that_is_said_again_is_no_answer(kind: str) -> None:
    for steps in (True, False):
        (form,) = Prompts().render(f"answers/{kind}", steps=steps, choices=[])
        assert isinstance(form, str)

        assert read(form, kind) is None and read(f"I have 3 facts.\n{form}", kind) in (None, "3", "I have 3 facts")


def test_there_is_a_form_for_every_kind_and_no_other() -> None:
    assert sorted(path.stem for path in (BUILT_IN / "answers").glob("*.md")) == sorted(KINDS.names())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is 22.", "22"),
        ("the ANSWER is: 22", "22"),
        ("Answer: 22 apples", "22"),
        ("Answer:\n22", "22"),
        ("The answer is **22**.", "22"),
        ("The answer is -7.", "-7"),
        ("The answer is \u22127.", "-7"),  # a minus as typesetters write it
        ("The answer is 1,234,567.", "1234567"),
        ("The answer is 1,300 then.", "1300"),
        ("The answer is $1,200.50.", "1200.5"),
        ("The answer is -$5.", "-5"),
        ("The answer is $-5.", "-5"),
        ("The answer is €3.", "3"),
        ("The answer is 12.5%.", "12.5"),
        ("The answer is 42.", "42"),
        ("The answer is 18.00.", "18"),
        ("The answer is .5.", "0.5"),
        ("Wait...5", "5"),
        ("The answer is -0.", "0"),
        ("The answer is 0.1.", "0.1"),
        ("The answer is 5. No: the answer is 6.", "6"),
        ("14 + 3 * 5 - 7 = 22", "22"),
        ("So 7-5", "5"),
        ("So (3)-5", "5"),
        ("x = -5", "-5"),
        ("3 * -5 = -15", "-15"),
        ("I count 3, then 4.", "4"),
        (r"\boxed{22}", "22"),
        (r"Not 3 but $\boxed{-1,234.5}$ of 7", "-1234.5"),
        (r"\boxed{\text{22 apples}}", "22"),
        (r"\boxed{3} or rather \boxed{4}", "4"),
        (r"\boxed{22", "22"),
        (r"\boxed{} and 7", "7"),
        (r"The answer is 3. \boxed{4}", "4"),  # a box counts more than a sentence
        ("The answer is that there are 3 of them.", "3"),
        ("The answer is right. We have 12.", "12"),
        ("1000000000000000000000", "1e+21"),
        ("The answer is unknown. Bob has 5.", None),
        ("The answer is not known, since 5 is missing.", None),
        ("Answer: none of 3", None),
        ("Answer: cannot be told from 3", None),
        (r"\boxed{unknown}, though 5", None),
        ("no number", None),
        ("", None),
        (DIGITS, None),
    ],
)
def test_numbers(text: str, answer: str | None) -> None:
    assert read(text, "number") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is (B).", "B"),
        ("(A) is wrong. The answer is (C).", "C"),
        ("Answer: B", "B"),
        ("Answer: D) 7", "D"),
        ("The answer is: **C**", "C"),
        ("I choose C", "C"),
        ("A car is blue, so C.", "C"),
        ("A car is big.", None),
        ("A.", "A"),
        ("It's A", "A"),
        (r"\boxed{B}", "B"),
        (r"\boxed{red}", "B"),
        (r"\boxed{green one}", "C"),
        (r"\boxed{7}", "D"),
        ("Put it as (X): (B)", "B"),
        ("(X)", None),
        ("(E)", None),
        ("The answer is unknown; A or B.", None),
        ("I think so", None),
        ("", None),
    ],
)
def test_options(text: str, answer: str | None) -> None:
    assert read(text, "option", CHOICES) == answer


def test_a_choice_may_be_stated_by_its_text() -> None:
    choices = ["A)5", "B)6", "C)7", "D)8", "E)None of these"]
    assert read("So the answer is None of these.", "option", choices) == "E"
    assert read("The answer is unknown.", "option", choices) is None


def test_options_beyond_the_fourth_need_as_many_choices() -> None:
    assert read("The answer is (E).", "option", [*CHOICES, "(E) none"]) == "E"
    assert read("The answer is (D).", "option") == "D"  # at least four letters are understood


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is yes.", "yes"),
        ("Yes or no? The answer is No.", "no"),
        ("Answer: NO, although yes was close", "no"),
        ("Yes. On second thought: no.", "no"),
        (r"no, \boxed{Yes}", "yes"),
        ("The answer is unknown, since no one counted.", None),
        ("There is no way. The answer is unknown.", None),
        ("I know nothing of yesterday", None),
        ("", None),
    ],
)
def test_yes_and_no(text: str, answer: str | None) -> None:
    assert read(text, "yes_no") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[Unknown]", "unknown"),  # a label as good as any other
        ("[Bob] lied, so [ Eve ].", "eve"),
        ("Bob", None),
        ("[]", None),
        ("[two\nlines]", None),
        ("", None),
    ],
)
def test_labels(text: str, answer: str | None) -> None:
    assert read(text, "label") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[Paris]", "Paris"),
        (r"[Paris] or \boxed{Rome}", "Rome"),
        (r"\boxed{f{x}}", "f{x}"),
        (r"\boxed{} [Oslo]", "Oslo"),
        ("The answer is New York City.\nIt is large.", "New York City"),
        ("It is Paris", "Paris"),
        ("[ ]", None),
        ("", None),
    ],
)
def test_texts(text: str, answer: str | None) -> None:
    assert read(text, "text") == answer


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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is 29 - 7 = 22.", "22"),
        (r"\boxed{14+8=22}", "22"),
        ("The answer is 22. 3 * 5 = 15", "22"),
        ("The answer is 1/2.", "0.5"),
        (r"\boxed{\frac{1}{2}}", "0.5"),
        ("The answer is 29 - 7", None),
        (r"\boxed{-\frac12}", "-0.5"),
    ],
)
def test_an_equation_counts_by_its_result_and_an_expression_not_at_all(text: str, answer: str | None) -> None:
    assert read(text, "number") == answer


@pytest.mark.parametrize("text", ["The answer is Z.", "The answer is I.", r"\boxed{Q}"])
def test_a_letter_that_no_choice_has_is_no_vote(text: str) -> None:
    assert read(text, "option", ["red", "blue"]) is None


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
    ("text", "answer"),
    [
        ('{"reasons": "2 and 3 are 5", "answer": 5}', "5"),
        ('I heard 7.\n```json\n{"reasons": "the answer is 6", "answer": "5"}\n```', "5"),
        ('{"reasons": "I have 2 apples", "answer": ""}', None),
        ('{"reasons": "I have 2 apples", "answer": null}', None),
        ('I heard {"answer": 6}. The answer is 5.', "5"),
        ("7 + 108 = 115. I do not know.", None),
        ("I do not know a. 7 + 108 = 115.", "115"),
    ],
)
def test_json_at_the_end_and_what_is_taken_back(text: str, answer: str | None) -> None:
    assert read(text, "number") == answer
