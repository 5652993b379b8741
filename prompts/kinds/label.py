"""Labels: those of the question's choices as they stand there, else the task's own in small letters."""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import bracketed, unmarked
from sottovoce.prompts.kinds.prose import plain
from sottovoce.prompts.kinds.sentences import CLAUSE, first, without_reason
from sottovoce.prompts.kinds.verdict import claimed, implied
from sottovoce.prompts.kinds.wording import named

NOUNS = "answer|label|verdict|classification|decision"
LONGEST = 60  # characters of a label that no list names


def read(text: str, choices: Choices) -> str | None:
    """Return what the last claim names which names a label of the list; without a list nothing is read in prose."""
    return claimed(plain(text), choices) if choices else None


def read_value(given: str, choices: Choices) -> str | None:
    """All of it, which must be one of the list where there is one."""
    said = (unmarked(given) or "").strip(" .*\"'")
    return (_of(said, choices) if choices else said.lower()) or None


def _of(source: str, choices: Choices) -> str | None:
    """The label that a mark names; empty where it names several, None where it names none."""
    if not choices:
        return _own(source)
    if leads := named(first(source), choices, at_start=True):
        others = named(without_reason(first(source), CLAUSE).partition(";")[0], choices)
        return "" if len({*others}) > 1 else leads[0]
    found = {*named(without_reason(source, CLAUSE), choices)}
    if not found and (letter := re.match(r"\W*([A-Z])\W*\Z", source)):  # as choices are shown
        place = string.ascii_uppercase.index(letter[1])
        return choices[place] if place < len(choices) else None
    return None if not found else found.pop() if len(found) == 1 else ""


def _own(source: str) -> str | None:
    """Return the label that a mark names without a list: its brackets' content, or a few words."""
    said = without_reason(first(source), CLAUSE).strip(" .*\"'")
    found = (bracketed(said) or said).lower()
    return found if len(found) <= LONGEST else None


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a list of labels that nobody could choose from, and a target that is none of them."""
    choices, target = question.get("choices") or [], known.target_of(question)
    if not choices:
        return
    known.check(choices, "labels")
    if target is not None and target.casefold().split() not in [each.casefold().split() for each in choices]:
        raise UsageError(f"target is {target!r}; expected one of the labels: {', '.join(map(repr, choices))}")


def grammar(choices: Choices) -> Form | None:
    """The labels of a list."""
    return Form(choices=tuple(choices)) if choices else None


LABEL = Kind(
    "label",
    "answers/label",
    "a label",
    read,
    read_value,
    grammar=grammar,
    check=check,
    named=_of,
    nouns=NOUNS,
    takes_brackets=True,
    implied=implied,
    unknown_is_an_answer=True,
)
