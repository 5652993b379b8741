"""Three hundred strings of every kind as models write them, labelled before the readers were mended."""

from __future__ import annotations

import time

import pytest

from sottovoce.nodes.question import Question
from sottovoce.prompts.kinds import KINDS, declines, read, read_reply, read_value, right, same
from sottovoce.prompts.kinds.prose import LONGEST
from tests.prompts.hard import label, later, number, option, text, yes_no

Case = tuple[Question, str, str | None, str]


def asked(kind: str, strings: list[tuple[str, str | None, str]], choices: list[str], question: str = "") -> list[Case]:
    return [({"question": question, "kind": kind, "choices": choices}, *string) for string in strings]


BOTH, GLAD = ["SUPPORTS", "REFUTES"], "She is glad. " * 9
LEFT = "How many apples does she have left?"
HARD: list[Case] = [
    *asked("number", number.NUMBERS, []),
    *asked("option", option.OF_COLOURS, option.COLOURS),
    *asked("option", option.OF_NUMBERED, option.NUMBERED),
    *asked("option", option.OF_FIGURES, option.FIGURES),
    *asked("option", option.OF_FACTS, option.FACTS),
    *asked("yes_no", yes_no.YES_NO, []),
    *asked("label", label.OF_VERDICTS, label.VERDICTS),
    *asked("label", label.OF_CHECKED, label.CHECKED),
    *asked("label", label.OF_MOODS, label.MOODS),
    *asked("label", label.OF_ANY, []),
    *asked("text", text.OF_CAPITAL, [], text.CAPITAL),
    *asked("text", text.OF_RIVER, [], text.RIVER),
    *(case for question, *string in text.OF_OTHERS for case in asked("text", [tuple(string)], [], question)),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("question", "said", "answer", "why"), HARD)
def test_a_hard_string_is_read_as_what_was_meant(question: Question, said: str, answer: str | None, why: str) -> None:
    found = read_reply(said, question)

    assert found == answer or (question["kind"] == "text" and same(found, answer, "text")), why


@pytest.mark.parametrize(("kind", "choices", "said", "answer"), later.LATER)
def test_a_later_string_is_read_too(kind: str, choices: list[str], said: str, answer: str | None) -> None:
    assert read_reply(said, {"question": "?", "kind": kind, "choices": choices}) == answer


@pytest.mark.parametrize(("question", "said", "target"), later.ASKED)
def test_a_reply_to_a_free_question_names_its_target(question: str, said: str, target: str | None) -> None:
    asked = {"question": question, "kind": "text", "target": target}
    found = read_reply(said, asked)

    assert found is None if target is None else right(found, asked)


@pytest.mark.parametrize(
    ("kind", "choices", "question", "said", "answer"),
    [
        ("option", ["a dog", "a cat"], "Which animal barks?", "A dog barks.", "A"),
        ("option", ["a dog", "a cat"], "Which animal barks?", "A dog is a thing.", None),
        ("option", ["a pen", "a plate"], "What do we write with?", "A pen is there to write, a plate is not.", "A"),
        ("yes_no", [], "Is 18 + 40 equal to 58?", "So, 18 + 40 = 58.", "yes"),
        ("yes_no", [], "Is 18 + 40 equal to 58?", "18 + 40 is not 58.", "no"),
        ("yes_no", [], "Is 18 + 40 equal to 58?", "18 + 40 = 59.", None),
        ("yes_no", [], "Is this true? Gold is a metal.", "Gold is indeed a metal.", "yes"),
        ("yes_no", [], "Is Oslo in Spain?", "To see whether Oslo is in Spain, we look at a map.", None),
        ("number", [], "How many apples does she have left?", "She has 9 - 2 = 7 apples left. " + GLAD, "7"),
        ("number", [], "How many apples does she have left?", "She has 9 apples. " + GLAD, None),
        ("number", [], LEFT, "She has 9 - 2 = 7 apples left. " + GLAD + "She has 9 - 3 = 6 apples left. ", "6"),
        ("number", [], LEFT, "First, she has 9 - 2 = 7 apples left. " + GLAD + "So,", None),
        ("number", [], LEFT, "She has 9 - 2 = 7 apples left. To find her apples left, we ask. " + GLAD + "So,", None),
        ("number", [], LEFT, "She has 9 - 2 = 7 apples left. " + GLAD + "So, the answer", "7"),
        ("number", [], LEFT, "She has 9 - 2 = 7 apples left. " + GLAD + "The answer", None),
        ("number", [], LEFT, "She has 9 - 2 = 7 apples left. " + GLAD + "There are 7 + 2", None),
        ("label", BOTH, "Claim: The lake is deep. Which?", "The evidence says the lake is deep.", "SUPPORTS"),
        ("label", BOTH, "Claim: It is deep. Which?", "The evidence says it is deep. So we can conclude that", None),
        ("label", BOTH, "Claim: The lake is deep. Which?", "The evidence says the lake is not deep.", "REFUTES"),
        ("text", [], "On which day of the week is the market?", "The market is in Birch End.", None),
        ("text", [], "On which day of the week is the market?", "The market is on Friday.", "Friday"),
        ("text", [], "What does her sister work as?", "Her sister is Anna Frey.", None),
        ("text", [], "What does her sister work as?", "Her sister is Anna Frey, a potter.", "potter"),
        ("text", [], "In which country is Tokyo?", "In Japan, Tokyo is the capital.", "Japan"),
        ("text", [], "On which river does it lie?", "The town lies on the Wenlock River.", "Wenlock"),
    ],
)  # fmt: skip
def test_the_question_tells_what_a_text_without_a_mark_answers(
    kind: str, choices: list[str], question: str, said: str, answer: str | None
) -> None:
    found = read_reply(said, {"question": question, "kind": kind, "choices": choices})

    assert found == answer or (kind == "text" and same(found, answer, "text"))


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("The working is long. " * 9 + "So, there are 10 cups. To convert this, 10 * 2 = 20 cups\nSo", "10"),
        ("The working is long. " * 9 + "So, Ilse has 12", None),  # of 125?
        ("The working is long. " * 9 + "So, the answer is 1", None),
        ("The working is long. " * 9 + "So, Ilse has 12 apples left and", "12"),
        ("The working is long. " * 9 + "\nAnswer: 12", "12"),
        ("The working is long. " * 9 + "4 cups / 2 = 2 cups", None),
        ("The working is long. " * 9 + "So, it weighs 3 kilo", "3"),
        ("The working is long. " * 9 + "So, it weighs 3 m", None),  # of 3 million?
        ("The working is long. " * 9 + "So, there are 10 cups. All in all, they are clean. So, there are 2", None),
        ("The working is long. " * 9 + "A day costs 4 * 3 = 12 crowns. A night costs 5 * 6 = 30 crowns.", None),
        ("The working is long. " * 9 + "A crate holds 4 * 3 = 12 jars. Two of them hold 2 * 12 = 24 jars.", "24"),
        ("The working is long. " * 9 + "We add 4 and 3, which gives us 7 jars. They are full of", "7"),
    ],
)
def test_a_number_of_a_text_that_was_cut_counts_where_it_is_whole(said: str, answer: str | None) -> None:
    assert read(said, "number") == answer


def test_there_are_some_sixty_of_every_kind() -> None:
    counts = {kind: sum(case[0]["kind"] == kind for case in HARD) for kind in KINDS.names()}
    assert min(counts.values()) >= 60 and sum(counts.values()) >= 300


SHAPES = [
    *["9", "9,", "9.", "9 ", "9/", "-", "+9", "1,00,", "12 ", "one ", "million ", "\xbd", " ", "\n", "\t", "("],
    *["(A) ", "A ", "A,", "[a]", "[1]", "[", "\\boxed{", "\\boxed{9}", "\\frac{", "\\frac{1}{2}", "\\text{", "$"],
    *["$9", "**", "**a**", "_a", "`", "Answer:", "Answer: ", "answer is ", "The answer\n", "the answer to "],
    *["is the answer ", "not ", "because ", ", not ", "x = ", "yes ", "no ", "yes or no ", "a.", "a. ", "A. "],
    *["?", "? ", "!", '."', "'s ", "end with ", "- ", "#", "#### 9\n", "{", '{"answer": ', "it is "],
    *["I don't know ", "Question:\n", "red ", "red, ", "supports ", "(9", "= ", "9 = ", "either ", "or "],
    *["\u2009123", "0\xb2"],
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


@pytest.mark.parametrize(
    ("said", "kind", "answer"),
    [
        (" 22", "number", "22"),
        ("Answer: 22", "number", "22"),
        (" 22 apples\n\nI hope this helps with question 3.", "number", "22"),
        (" 20 or 22", "number", None),
        (" unknown", "number", None),
        (" (B) blue", "option", "B"),
        (" b", "option", "B"),
        (" Yes, it is.", "yes_no", "yes"),
        (" yes or no", "yes_no", None),
        (" Not enough info.", "label", "NOT ENOUGH INFO"),
        (" maybe", "label", None),
        (" The river Orn.\nKestrel Bay lies on it.", "text", "The river Orn"),
        (" The town where Mira Dolan was born lies on the river Orn.", "text", "Orn"),
        (" I don't know.", "text", None),
        ("", "text", None),
    ],
)
def test_a_marked_line_is_the_answer_as_a_whole(said: str, kind: str, answer: str | None) -> None:
    choices = {"option": option.COLOURS, "label": label.VERDICTS}.get(kind, [])

    assert read_reply(f"Answer:{said}", {"question": text.RIVER, "kind": kind, "choices": choices}) == answer


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


def test_a_label_is_read_in_the_spelling_of_its_list() -> None:
    assert read_value("not-enough-info", "label", label.VERDICTS) == read("[not enough INFO]", "label", label.VERDICTS)
