"""Multiple-choice data sets: the answer is the letter of an option."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from sottovoce.core.errors import UsageError
from sottovoce.datasets.schema import DataSet, Fields, Hub, Row
from sottovoce.prompts.kinds.option import bare

LETTER = re.compile(r"\A\(?[A-Z]\)\s*")
LETTERS = string.ascii_uppercase


def chosen(question: str, choices: Sequence[str], right: int, how_many: int) -> Fields:
    """Return a question with its options; the 0-based option `right` and any with the same text are right.

    Raises:
        UsageError: the number of options is not `how_many`, or `right` is not one of them.
    """
    if len(choices) != how_many:
        raise UsageError(f"found {len(choices)} options; expected {how_many}")
    if not 0 <= right < how_many:
        raise UsageError(f"the right option is number {right + 1}; expected 1 to {how_many}")
    same = [at for at, choice in enumerate(choices) if choice == choices[right] and at != right]
    found: Fields = {"question": question, "choices": [*choices], "target": _named(choices, right)}
    return {**found, "aliases": [LETTERS[at] for at in same]} if same else found


def _named(choices: Sequence[str], right: int) -> str:
    """Return the option's letter, or its text if an option is that letter: "A" would be read as the option "A"."""
    return choices[right] if LETTERS[right] in bare(choices) else LETTERS[right]


def _place(letter: str, how_many: int) -> int:
    place = LETTERS.find(letter.strip(" ().").upper())
    if len(letter.strip(" ().")) != 1 or not 0 <= place < how_many:
        raise UsageError(f"the right option is {letter!r}; expected a letter from A to {LETTERS[how_many - 1]}")
    return place


def _mmlu(row: Row) -> Fields:
    """Read a row: six cells as published; on the hub the options are a list and the answer is a 0-based number."""
    choices = row.texts("choices") if "choices" in row.values else [row.text(letter) for letter in "ABCD"]
    answer = row.get("answer")
    right = answer if isinstance(answer, int) else _place(row.text("answer"), 4)
    return chosen(row.text("question"), choices, right, 4)


def _aqua(row: Row) -> Fields:
    choices = [LETTER.sub("", option, count=1) for option in row.texts("options")]
    fields = chosen(row.text("question"), choices, _place(row.text("correct"), 5), 5)
    return {**fields, "solution": f"{row.text('rationale')}\nThe answer is {row.text('correct')}."}


def _ecqa(row: Row) -> Fields:
    """Read a row; the right option is the one whose text is the answer."""
    choices, answer = [row.text(f"q_op{i}") for i in range(1, 6)], row.text("q_ans")
    plain = [choice.casefold() for choice in choices]
    if answer.casefold() not in plain:
        raise UsageError(f"q_ans is {answer!r}; expected one of the options: {', '.join(map(repr, choices))}")
    fields = chosen(row.text("q_text"), choices, plain.index(answer.casefold()), 5)
    why = row.values.get("taskB")
    return {**fields, "solution": f"{why.strip()} The answer is {answer}."} if why else fields


def _twice(row: Row, choices: Sequence[str]) -> str:
    return "with a repeated option" if len({*choices}) < len(choices) else ""


MMLU = DataSet(
    "mmlu",
    "multiple choice with four options in 57 subjects; a part is a subject",
    "option",
    {name: "..." for name in ("question", "A", "B", "C", "D", "answer")},
    _mmlu,
    {
        "test": 14_042,
        "formal_logic": 126,
        "high_school_mathematics": 270,
        "professional_psychology": 612,
        "abstract_algebra": 100,
        "college_mathematics": 100,
    },
    columns=("question", "A", "B", "C", "D", "answer"),
    is_csv=True,
    any_part=True,
    metadata=("subject",),
    odd=lambda row: _twice(row, _mmlu(row)["choices"]),
    hub=Hub("all", part_is_config=True),
)
AQUA = DataSet(
    "aqua",
    "algebra with five options and a rationale",
    "option",
    {"question": "...", "options": ["A)21", "B)..."], "rationale": "...", "correct": "A"},
    _aqua,
    {"test": 254, "dev": 254, "train": 97_467},
    odd=lambda row: _twice(row, _aqua(row)["choices"]),
    hub=Hub("raw"),
)
ECQA = DataSet(
    "ecqa",
    "common-sense questions with five options and an explanation",
    "option",
    {name: "..." for name in ("q_text", *(f"q_op{i}" for i in range(1, 6)), "q_ans", "taskB")},
    _ecqa,
    {"test": 2_194, "train": 7_598, "validation": 1_098},
    is_csv=True,
    metadata=("q_no", "q_concept"),
    odd=lambda row: _twice(row, _ecqa(row)["choices"]),
)
