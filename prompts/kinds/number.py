"""Numbers: `$`, percent, euro and thousands commas are dropped, a minus and decimals are kept."""

import math
import re
from collections.abc import Mapping
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import UNKNOWN, boxed, stated

FIGURE = re.compile(r"[-\u2212]?\s?(?:[$\u20ac\u00a3]\s?)?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<![\d.])\.\d+)")
UNSOLVED = re.compile(r"\d\s*[-+*/\u00d7\u00f7\u2212]\s*\d|frac")  # an expression that nobody worked out
FRACTION = re.compile(r"(?:\\[dt]?frac\{)?(-?\d+)(?:\s*/\s*|\}\{)(\d+)\}?")
OPEN = re.compile(r"\b(?:do not|don't|cannot|can't|could not) (?:know|tell|say|answer|determine)\b", re.IGNORECASE)
"""After a number it takes back that it is the answer."""
TOLERANCE = 1e-5  # of CIPHER's evaluator


def read(text: str, choices: Choices) -> str | None:
    """The last boxed content, else what the last "answer is"/"Answer:" states, else the last number.

    Of an equation the right side counts, a lone fraction is its value, an expression without a result none.
    """
    box = boxed(text)
    source = re.split(r"[.;!?](?=\s|$)", stated(text) or "")[0] if box is None else box
    result = source.rsplit("=", 1)[-1]  # "29 - 7 = 22" is 22
    lone = FRACTION.fullmatch(result.strip(" $."))
    if UNKNOWN.match(source) or (UNSOLVED.search(result) and not lone):
        return None
    if lone and float(lone[2]):  # division by zero is no number
        return _plain(repr(float(lone[1]) / float(lone[2])))
    first = FIGURE.search(result)
    return (first and _plain(first[0])) or _last(text)


def read_value(given: str, choices: Choices) -> str | None:
    """As if stated; none where several different ones stand there, or a "not"."""
    result = given.rsplit("=", 1)[-1]
    several = len({_plain(each) for each in FIGURE.findall(result)}) > 1 and not FRACTION.search(result)
    denied = re.search(r"\bn(ot|either|one)\b", given.lower())
    return None if several or denied else read(f"The answer is {given}", choices)


def same(left: str, right: str) -> bool:
    """Within 1e-5 of each other."""
    return math.isclose(float(left), float(right), rel_tol=0.0, abs_tol=TOLERANCE)


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is no plain number."""
    try:
        float(question.get("target", 0))
    except ValueError as error:
        expected = "expected a plain number, as answers are read: 22, -3.5"
        raise UsageError(f"target is {question['target']!r}; {expected}") from error


def _last(text: str) -> str | None:
    found = list(FIGURE.finditer(text))
    if not found or OPEN.search(text, found[-1].end()):
        return None
    last, before = found[-1][0], text[: found[-1].start()].rstrip()
    # "7-5" read from its end is 5, not -5: a minus right after a digit or bracket is an operator.
    return _plain(last.lstrip("-\u2212") if before.endswith(tuple("0123456789)")) else last)


def _plain(written: str) -> str | None:
    value = float(re.sub(r"[^\d.\-]", "", written.replace("\u2212", "-")))
    if math.isinf(value):  # hundreds of digits: a model that repeats itself
        return None
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


DIGITS = Form(pattern=r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?", optional=True)
NUMBER = Kind("number", "answers/number", "a number", read, read_value, same, lambda choices: DIGITS, check)
