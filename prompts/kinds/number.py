r"""Numbers: `$`, percent, euro, units and separators of thousands are dropped, a minus and decimals are kept.

An expression counts by its result ("29 - 7 = 22"), and not at all where nobody worked it out ("29 - 7"); what is
itself a way to write a number is its value: a fraction, 2 \times 10^3, \sqrt{16}. Numbers in words are read up to
trillions. A comma before one or two last digits of a lone number is a decimal one.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.prompts.kinds import worked
from sottovoce.prompts.kinds.expression import FORMULA, FRACTION, named, outcome
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.numerals import figures, simple
from sottovoce.prompts.kinds.prose import LONGEST, plain

TOLERANCE = 1e-5  # of CIPHER's evaluator


def read(text: str, choices: Choices) -> str | None:
    """Return the only number in bold, else the one that the text comes to."""
    return worked.bold(text[-LONGEST:]) or worked.comes_to(plain(text))


def read_value(given: str, choices: Choices) -> str | None:
    """As if stated; none where several different ones stand there, or a "not"."""
    result = simple(given).rsplit("=", 1)[-1]
    several = len({value for _, _, value in figures(result)}) > 1
    is_one = not several or FRACTION.match(result) or FORMULA.search(result) or outcome(result)
    denied = re.search(r"\bn(ot|either|one)\b", given.lower())
    return None if denied or not is_one else named(plain(given)) or None


def same(left: str, right: str) -> bool:
    """Within 1e-5 of each other."""
    return math.isclose(float(left), float(right), rel_tol=0.0, abs_tol=TOLERANCE)


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is no plain number."""
    target = str(question.get("target", 0))
    is_plain = re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", target.strip())
    if not is_plain or not math.isfinite(float(target)):
        raise UsageError(f"target is {target!r}; expected a plain number, as answers are read: 22, -3.5")


DIGITS = Form(pattern=r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?", optional=True)
NUMBER = Kind(
    "number",
    "answers/number",
    "a number",
    read,
    read_value,
    same,
    lambda choices: DIGITS,
    check,
    named=lambda source, choices: named(source),
    implied=worked.implied,
)
