"""Labels: the question's choices as written there, or the task's own labels in lowercase.

A label is read with any signs between its words and in any form of its verb ("supported"), unless it is denied.
"""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.kind import is_bare as is_short
from sottovoce.prompts.kinds.option import check_list
from sottovoce.prompts.kinds.sentences import first, without_reason

DENIED = re.compile(r"(?:\bnot|\bno|n't|\bneither|\bnor)\s+(?:(?!but\b)\w+\s+){0,2}\Z", re.IGNORECASE)
LONGEST = 60  # characters of a label without a list


def labels_in(said: str, choices: Choices) -> list[str]:
    """Return the labels in a text in order, without denied ones."""
    words = sorted(choices, key=len, reverse=True)
    any_word = "|".join(f"({_pattern(word)})" for word in words)
    found = re.finditer(rf"(?<![^\W_])(?:{any_word})(?![^\W_])", said, re.IGNORECASE)
    own = [match for match in found if not DENIED.search(said[max(0, match.start() - 40) : match.start()])]
    return [words[(match.lastindex or 1) - 1] for match in own]


def _pattern(label: str) -> str:
    """Return a pattern of a label with any signs between its words, and other forms: "supported", "information"."""
    word = re.sub(r"[\W_]+", " ", label.casefold()).strip()
    form = r"[\W_]{1,3}".join(map(re.escape, word.split()))
    if re.fullmatch(r"(?:support|refute|contradict)s", word):
        return form[:-1] + "(?:s|d|ed)?"
    return form + r"(?:rmation)?" if word.endswith("info") else form


def read(said: str, choices: Choices) -> str | None:
    """Return the label that a statement names; empty if it names several, None if it names none."""
    stated = first(without_reason(said))
    if not choices:
        label = stated.strip(" .*\"'[]").lower()
        return label if len(label) <= LONGEST else None
    named = labels_in(stated, choices)
    if not named and (letter := re.fullmatch(r"\W*([A-Z])\W*", said)):  # as choices are shown
        place = string.ascii_uppercase.index(letter[1])
        return choices[place] if place < len(choices) else None
    return None if not named else named[0] if len({*named}) == 1 else ""


def is_bare(line: str, choices: Choices) -> bool:
    """Return whether a line is a label of the list and nothing else, or without a list a few words."""
    return (
        any(re.fullmatch(rf"\W*{_pattern(each)}\W*", line, re.I) for each in choices)
        if choices
        else is_short(line, choices)
    )


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse an unusable list of labels, and a target that is not in it."""
    choices, target = question.get("choices") or [], question.get("target")
    if not choices:
        return
    check_list(choices, "labels")
    if target is not None and str(target).casefold().split() not in [label.casefold().split() for label in choices]:
        raise UsageError(f"target is {target!r}; expected one of the labels: {', '.join(map(repr, choices))}")


LABEL = Kind(
    "label",
    "answers/label",
    "a label",
    read,
    is_bare,
    grammar=lambda choices: Form(choices=tuple(choices)) if choices else None,
    check=check,
    nouns="answer|label|verdict|classification|decision",
    unknown_is_an_answer=True,
)
