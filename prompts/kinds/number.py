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
from sottovoce.prompts.kinds.formula import worked_out
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import LONGEST, OPEN, SAYS_NOTHING, UNKNOWN, plain, sources
from sottovoce.prompts.kinds.numerals import MONEY, figures, simple, spelled, written
from sottovoce.prompts.kinds.sentences import CLAUSE, affirmed, without_reason

TOLERANCE = 1e-5  # of CIPHER's evaluator
LISTED = re.compile(
    r"^\s{0,80}\d{1,3}[.)]\s+(?=\S)|\b(?:step|question|agent|round)[ _]#?\d+|\[\d{1,3}\]", re.IGNORECASE | re.MULTILINE
)
"""Numbers that count something else: items, steps, passages."""
ASKED = re.compile(r"(?:[^.!?\n]|\.(?=\d)){0,400}+\?(?=\s|\Z)")
OPERATOR = r"(?:[-+*/\u00d7\u00f7\u00b7:^]|\\times|\\cdot|\\div)"
UNSOLVED = re.compile(rf"\d[\s)}}]{{0,9}}{OPERATOR}[\s({{]{{0,9}}[-(]?\d")
ALGEBRA = re.compile(r"(?<![\w\\])[a-zA-Z]\s{0,9}[-+*/^]\s{0,9}\d|\d\s{0,9}[-+*/^]\s{0,9}[a-zA-Z]\b|\d[abknxyz]\b")
SEVERAL = re.compile(r"\b(?:or|between|either|and)\b|\bto\b(?=\s*\d)", re.IGNORECASE)
LATEX_FRACTION = re.compile(r"\\[dtc]?frac\s*(?:\{\s*(-?[\d.]{1,40})\s*\}|(\d))\s*(?:\{\s*(-?[\d.]{1,40})\s*\}|(\d))")
FRACTION = re.compile(
    rf"[\s{MONEY}]*(-?)\s?(?:(\d{{1,15}})\s)?\s?(-?\d{{1,400}}(?:\.\d+)?)\s?/\s?(\d{{1,400}}(?:\.\d+)?)(?![\d/.])"
)
POWER_OF_TEN = re.compile(
    r"(-?[\d.]{1,40})?\s?(?:[x*\u00d7\u00b7]|\\times|\\cdot)?\s?(?<!\d)10\s?\^\s?\{?\s?([-+]?\d{1,4})\s?\}?"
)
FORMULA = re.compile(r"\\[a-z]+|\^|\u221a|\u03c0|\d!")
UNIT = re.compile(r"(?<=\d)\s{0,9}(?:[a-zA-Z\u00b5]{2,20}|[mgsLJNWVAKCF])(?:/[a-zA-Z]{1,9})?\s?\^\s?\{?-?\d\}?")
TIDY = [
    (re.compile(r"\{,\}|\\[,;:! ](?=\d{3})"), ","),
    (re.compile(r"\\(?:left|right|displaystyle|approx|,|;|:|!)|\\(?=[$%#&])|\^\s?\{?\\circ\}?|\u00b0"), " "),
]


def read(text: str, choices: Choices) -> str | None:
    """What is marked as the answer (see `sources`), else the last number that is no item, step or question."""
    body = plain(text)
    for source in sources(body):
        if (found := _of(source)) is not None:
            return found or None
    return _last(body, text)


def read_value(given: str, choices: Choices) -> str | None:
    """As if stated; none where several different ones stand there, or a "not"."""
    result = simple(given).rsplit("=", 1)[-1]
    several = len({value for _, _, value in figures(result)}) > 1 and not (
        FRACTION.match(result) or FORMULA.search(result)
    )
    denied = re.search(r"\bn(ot|either|one)\b", given.lower())
    return None if several or denied else read(f"The answer is {given}", choices)


def same(left: str, right: str) -> bool:
    """Within 1e-5 of each other."""
    return math.isclose(float(left), float(right), rel_tol=0.0, abs_tol=TOLERANCE)


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is no plain number."""
    target = str(question.get("target", 0))
    if not re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", target.strip()) or not math.isfinite(
        float(target)
    ):
        raise UsageError(f"target is {target!r}; expected a plain number, as answers are read: 22, -3.5")


def _of(source: str) -> str | None:
    """The number that a mark names; empty where it says that there is none, None where it speaks of something else."""
    said = simple(source)
    for pattern, meaning in TIDY:
        said = pattern.sub(meaning, said)
    said = affirmed(re.split(r"[.;!?](?=\s|$)", without_reason(said.strip(), CLAUSE))[0])
    if UNKNOWN.match(source) or not said:
        return "" if UNKNOWN.match(source) or re.search(r"\d", source) else None
    outside = re.sub(r"\([^()]{0,200}\)", " ", said)  # "42 apples (6 * 7)"
    return _result(outside if re.search(r"\d", outside) else said)


def _result(said: str) -> str | None:
    """The right side of an equation, or the left one where nobody worked out the right."""
    sides = re.split(r"=|\u2248|\\approx|\\equiv", said)
    if len({name for name in re.findall(r"(?<![\w\\])([a-zA-Z])\s{0,9}=", said)}) > 1:
        return ""
    found = [_value(side) for side in sides]
    return next((each for each in reversed(found) if each), found[-1])


def _value(said: str) -> str | None:
    said = LATEX_FRACTION.sub(lambda of: f" {of[1] or of[2]}/{of[3] or of[4]}", said).replace("- ", "-", 1)
    if power := POWER_OF_TEN.fullmatch(said.strip(" .$%")):
        return (
            written(float(f"{power[1] or 1}e{power[2]}"))
            if re.fullmatch(r"-?(\d+\.?\d*|\.\d+)", power[1] or "1")
            else ""
        )
    if fraction := FRACTION.match(said):
        return _fraction(fraction) if not figures(said[fraction.end() :]) else ""
    if lone := re.fullmatch(rf"[\s{MONEY}]*(-?\d+),(\d{{1,2}})\s?(?:[^\d\s,]\D*)?", said):
        return written(float(f"{lone[1]}.{lone[2]}"))
    said = UNIT.sub("", said)
    if FORMULA.search(said):
        return _formula(said)
    if UNSOLVED.search(said) or ALGEBRA.search(said):
        return ""
    return _named(said)


def _named(said: str) -> str | None:
    """The first number of a phrase, in figures or words; none of several that are told apart by "or" or "to"."""
    found = figures(said)
    if len({value for _, _, value in found}) > 1:
        if SEVERAL.search(said[found[0][0] - 9 if found[0][0] > 9 else 0 : found[1][1]]):
            return ""
    if found:
        return found[0][2]
    words = spelled(said)
    return words[0][1] if words and not SAYS_NOTHING.match(said) else None


def _fraction(found: re.Match[str]) -> str:
    whole, above, below = float(found[2] or 0), float(found[3]), float(found[4])
    if not below or math.isinf(above) or math.isinf(below):
        return ""
    value = whole + above / below
    return written(-value if found[1] else value) or ""


def _formula(said: str) -> str | None:
    """The value of what stands there as LaTeX; words before or behind it are no part of it."""
    latex = re.sub(r"\s(?:[a-zA-Z]{2,}\s?)+[.]?$|^\s*(?:[a-zA-Z]{2,}\s)+", "", said).strip(" .")
    latex = (
        re.sub(r"\u221a\s?\(?(\d+)\)?", r"\\sqrt{\1}", latex).replace("\u03c0", r"\pi ").replace("\u00d7", r"\times ")
    )
    value = worked_out(latex)
    return "" if value is None else written(value) or ""


def _last(body: str, text: str) -> str | None:
    """The bold one of a text without a mark, else the last one, else the only one in words."""
    if re.search(rf"\d\s{{0,9}}{OPERATOR}?\s{{0,9}}(?:{OPERATOR}|=)\s*\Z", body):  # cut within an expression
        return None
    bold = {value for each in re.findall(r"\*\*([^*\n]{1,80})\*\*", text[-LONGEST:]) if (value := _bold(each))}
    if len(bold) == 1:
        return bold.pop()
    body = simple(LISTED.sub(" ", body))
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
