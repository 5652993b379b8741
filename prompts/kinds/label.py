"""Labels: the question's choices as written there, or the task's own labels in lowercase."""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import bracketed, unmarked
from sottovoce.prompts.kinds.prose import plain
from sottovoce.prompts.kinds.sentences import CLAUSE, first, without_reason
from sottovoce.prompts.kinds.verdict import claimed, implied
from sottovoce.prompts.kinds.wording import named

NOUNS = "answer|label|verdict|classification|decision"
LONGEST = 60  # characters of a label without a list


def read(text: str, choices: Choices) -> str | None:
    """Return the label of the list that the text's claims give; without a list, prose is not parsed."""
    return claimed(plain(text), choices) if choices else None


def read_value(given: str, choices: Choices) -> str | None:
    """Return the whole text, which must be in the list if there is one."""
    said = (unmarked(given) or "").strip(" .*\"'")
    return (_of(said, choices) if choices else said.lower()) or None


def _of(source: str, choices: Choices) -> str | None:
    """Return the label that a mark names; empty if it names several, None if it names none."""
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
    """Return the label that a mark names without a list: the text in brackets, or a few words."""
    said = without_reason(first(source), CLAUSE).strip(" .*\"'")
    found = (bracketed(said) or said).lower()
    return found if len(found) <= LONGEST else None


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse an unusable list of labels, and a target that is not in it."""
    choices, target = question.get("choices") or [], known.target_of(question)
    if not choices:
        return
    known.check(choices, "labels")
    if target is not None and target.casefold().split() not in [each.casefold().split() for each in choices]:
        raise UsageError(f"target is {target!r}; expected one of the labels: {', '.join(map(repr, choices))}")


def grammar(choices: Choices) -> Form | None:
    """Return a format with the labels of a list."""
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
