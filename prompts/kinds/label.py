"""Labels of the task's own, in small letters."""

import re

from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import unmarked


def read(text: str, choices: Choices) -> str | None:
    """The last bracketed text."""
    found = re.findall(r"\[([^\[\]\n]{1,60})\]", text)
    return found[-1].strip().lower() if found else None


def read_value(given: str, choices: Choices) -> str | None:
    """All of it."""
    return (unmarked(given) or "").lower() or None


LABEL = Kind("label", "answers/label", "a label", read, read_value, unknown_is_an_answer=True)
