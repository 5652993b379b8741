"""A kind of answer of somebody else's: numbers in Roman numerals."""

import re

from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds import Kind

DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def read(text: str, choices: object) -> str | None:
    found = re.findall(r"\b[IVXLCDM]+\b", text.upper())
    return found[-1] if found else None


def value(numeral: str) -> int:
    """MCMXC: a digit before a larger one is subtracted."""
    digits = [DIGITS[letter] for letter in numeral]
    return sum(-a if a < b else a for a, b in zip(digits, [*digits[1:], 0], strict=True))


ROMAN = Kind(
    words="Roman numeral",
    form='End with "The answer is XIV."',
    placeholder="a numeral",
    read=read,
    same=lambda left, right: value(left) == value(right),
    grammar=lambda choices: Form(pattern="[IVXLCDM]{1,15}"),
)
