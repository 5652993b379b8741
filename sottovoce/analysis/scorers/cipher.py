"""The result analyzer of CIPHER (arXiv 2310.06272): the majority of the last round, ties to the last agent.

Misreadings: the sign of a number in braces is lost; a reply without a number counts as -99999 and can win the vote;
a reply without a letter counts as its last character.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from sottovoce.analysis.scorers import Scorer, Texts
from sottovoce.analysis.scorers.du import as_float

Answer = TypeVar("Answer", str, float)
NONE = -99999.0
CLOSE = 1e-5
ANSWERS = (re.compile(r"Answer: (-?\d+\.\d+)"), re.compile(r"Answer: (-?\d+)"))
LETTERS = (re.compile(r"Answer: (\w)"), re.compile(r"answer is \W?(\w)\b"))
BRACES = re.compile(r"\{([^{}]*)\}")
LAST = re.compile(r"-?\d+\.?\d*")


def number(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score GSM8K and arithmetic.

    >>> number(["Answer: 7", "Answer: 8"], "8"), number(["{-8}"], "8"), number(["None."], "8")
    (1.0, 1.0, 0.0)
    """
    return float(abs(_majority([number_of(text) for text in texts]) - number_of(gold)) < CLOSE)


def number_of(text: str) -> float:
    """Return the first number after "Answer:", else the last one in braces, else the last of all."""
    plain = re.sub('[$,\N{EURO SIGN}"]', "", text)
    marked = next((found[1] for pattern in ANSWERS if (found := pattern.search(plain))), None)
    read = marked or _in_braces(plain) or (LAST.findall(plain) or [""])[-1]
    value = as_float(read)
    return NONE if value is None else value


def _in_braces(text: str) -> str | None:
    digits = [re.sub(r"[^0-9.]", "", each) for each in BRACES.findall(text)]
    return next((each for each in reversed(digits) if each), None)


def option(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score MMLU."""
    return float(_majority([letter_of(text) for text in texts]) == gold.upper())


def letter_of(text: str) -> str:
    """Return the letter after "Answer:", else after "answer is", else the last character; a dash for an empty text."""
    found = next((found[1] for pattern in LETTERS if (found := pattern.search(text))), text.strip()[-1:])
    return found.upper() or "-"


def _majority(answers: Sequence[Answer]) -> Answer:
    return Counter(reversed(answers)).most_common(1)[0][0]  # ties go to the first in this order


SCORERS: dict[str, Scorer] = {"number": number, "option": option}
