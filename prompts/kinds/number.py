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
from sottovoce.prompts.kinds.expression import FORMULA, FRACTION, OPERATOR, named
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import sources
from sottovoce.prompts.kinds.nothing import OPEN
from sottovoce.prompts.kinds.numerals import figures, simple, spelled
from sottovoce.prompts.kinds.prose import LONGEST, plain

TOLERANCE = 1e-5  # of CIPHER's evaluator
LISTED = re.compile(
    r"^\s{0,80}\d{1,3}[.)]\s+(?=\S)|\b(?:step|question|agent|round)[ _]#?\d+|\[\d{1,3}\]", re.IGNORECASE | re.MULTILINE
)
"""Numbers that count something else: items, steps, passages."""
REMARK = re.compile(rf"(?<=[a-zA-Z])\s\(\d[\d\s.+*/\u00d7-]{{0,80}}{OPERATOR}[\d\s.+*/\u00d7-]{{0,80}}\)")
"""The working behind a number: "12 apples (5 + 7)"."""
ASKED = re.compile(r"(?:[^.!?\n]|\.(?=\d)){0,400}+\?(?=\s|\Z)")


def read(text: str, choices: Choices) -> str | None:
    """What is marked as the answer (see `sources`), else the last number that is no item, step or question."""
    body = plain(text)
    for source in sources(body):
        if (found := named(source)) is not None:
            return found or None
    return _last(body, text)


def read_value(given: str, choices: Choices) -> str | None:
    """As if stated; none where several different ones stand there, or a "not"."""
    result = simple(given).rsplit("=", 1)[-1]
    several = len({value for _, _, value in figures(result)}) > 1
    is_one = not several or FRACTION.match(result) or FORMULA.search(result)
    denied = re.search(r"\bn(ot|either|one)\b", given.lower())
    return None if denied or not is_one else read(f"The answer is {given}", choices)


def same(left: str, right: str) -> bool:
    """Within 1e-5 of each other."""
    return math.isclose(float(left), float(right), rel_tol=0.0, abs_tol=TOLERANCE)


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is no plain number."""
    target = str(question.get("target", 0))
    is_plain = re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", target.strip())
    if not is_plain or not math.isfinite(float(target)):
        raise UsageError(f"target is {target!r}; expected a plain number, as answers are read: 22, -3.5")


def _last(body: str, text: str) -> str | None:
    """The bold one of a text without a mark, else the last one, else the only one in words."""
    if re.search(rf"\d\s{{0,9}}{OPERATOR}?\s{{0,9}}(?:{OPERATOR}|=)\s*\Z", body):  # cut within an expression
        return None
    bold = {value for each in re.findall(r"\*\*([^*\n]{1,80})\*\*", text[-LONGEST:]) if (value := _bold(each))}
    if len(bold) == 1:
        return bold.pop()
    body = REMARK.sub(" ", simple(LISTED.sub(" ", body)))
    body = ASKED.sub(" ", body) if "?" in body else body
    found = figures(body)
    if not found:
        words = {value for _, value in spelled(body)} - {"1"}
        return words.pop() if len(words) == 1 and not OPEN.search(body) else None
    start, end, value = found[-1]
    if OPEN.search(body, end):
        return None
    # "7-5" read from its end is 5, not -5: a minus right after a digit or bracket is an operator.
    return value.lstrip("-") if body[:start].rstrip().endswith(tuple("0123456789)")) else value


def _bold(said: str) -> str | None:
    found = figures(simple(LISTED.sub("", said)))
    return found[0][2] if len(found) == 1 and not said.rstrip().endswith(":") else None


DIGITS = Form(pattern=r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?", optional=True)
NUMBER = Kind("number", "answers/number", "a number", read, read_value, same, lambda choices: DIGITS, check)
