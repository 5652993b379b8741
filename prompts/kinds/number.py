r"""Numbers: `$`, percent, euro, units and thousands separators are dropped; a minus and decimals stay.

An expression counts by its stated result ("29 - 7 = 22"), and not at all without one ("29 - 7"). A notation for a
number counts by its value: a fraction, 2 \times 10^3, \sqrt{16}. Numbers in words are parsed up to trillions. A comma
before the last one or two digits of a lone number is a decimal comma.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds import worked
from sottovoce.prompts.kinds.expression import FORMULA, FRACTION, named, outcome, tidied
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.numerals import figures
from sottovoce.prompts.kinds.prose import LONGEST, plain
from sottovoce.prompts.kinds.sentences import is_whole

TOLERANCE = 1e-5  # as in CIPHER's evaluator


def read(text: str, choices: Choices) -> str | None:
    """Return the only number in bold, or else the text's result."""
    body = plain(text)
    body += "." if is_whole(text) and not is_whole(body) else ""  # the end was a sign of LaTeX or Markdown
    return worked.bold(text[-LONGEST:]) or worked.comes_to(body)


def read_value(given: str, choices: Choices) -> str | None:
    """Return the number of a field, parsed as a statement; None if it has several different numbers, or a "not"."""
    result = tidied(given).rsplit("=", 1)[-1]
    several = len({value for _, _, value in figures(result)}) > 1
    is_one = not several or FRACTION.match(result) or FORMULA.search(result) or outcome(result)
    denied = re.search(r"\bn(ot|either|one)\b", given.lower())
    return None if denied or not is_one else named(plain(given)) or None


def same(left: str, right: str) -> bool:
    """Return whether two numbers are within 1e-5 of each other."""
    return math.isclose(float(left), float(right), rel_tol=0.0, abs_tol=TOLERANCE)


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is not a plain number."""
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
