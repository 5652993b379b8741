"""Labels of the task's own, in small letters; "unknown" is as good as any other."""

import re

from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import unmarked


def read(text: str, choices: Choices) -> str | None:
    """The last bracketed text."""
    found = re.findall(r"\[([^\[\]\n]{1,60})\]", text)
    return found[-1].strip().lower() if found else None


LABEL = Kind("label", "answers/label", "a label", read, lambda given, choices: (unmarked(given) or "").lower() or None)
