"""Yes or no."""

import re

from sottovoce.form import Form
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import UNKNOWN, boxed, stated

WORDS = re.compile(r"\b(yes|no)\b")


def read(text: str, choices: Choices) -> str | None:
    """The first of the words in a box, else in a statement, else the last one of the text."""
    for source in (boxed(text) or "", stated(text) or ""):
        if UNKNOWN.match(source):
            return None
        if first := WORDS.search(source.lower()):
            return first[0]
    found = WORDS.findall(text.lower())
    return found[-1] if found else None


def read_value(given: str, choices: Choices) -> str | None:
    """Also true and false; none where both words stand there."""
    found = set(re.findall(r"\b(yes|no|true|false)\b", given.lower()))
    return None if len(found) != 1 else "yes" if found & {"yes", "true"} else "no"


EITHER = Form(choices=("yes", "no"))
YES_NO = Kind("yes or no", "answers/yes_no", "yes or no", read, read_value, grammar=lambda choices: EITHER)
