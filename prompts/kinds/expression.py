r"""The number that a phrase names, in figures, words, a fraction or a formula; "29 - 7" is none.

An expression counts by its result, and not at all where nobody worked it out; what is itself a way to write a
number is its value: a fraction, 2 \times 10^3, \sqrt{16}.
"""

import math
import re

from sottovoce.prompts.kinds.formula import worked_out
from sottovoce.prompts.kinds.nothing import SAYS_NOTHING, UNKNOWN
from sottovoce.prompts.kinds.numerals import MONEY, figures, simple, spelled, written
from sottovoce.prompts.kinds.sentences import CLAUSE, affirmed, without_reason

OPERATOR = r"(?:[-+*/\u00d7\u00f7\u00b7:^]|\\times|\\cdot|\\div)"
UNSOLVED = re.compile(rf"\d[\s)}}]{{0,9}}{OPERATOR}[\s({{]{{0,9}}[-(]?\d")
ALGEBRA = re.compile(r"(?<![\w\\])[a-zA-Z]\s{0,9}[-+*/^]\s{0,9}\d|\d\s{0,9}[-+*/^]\s{0,9}[a-zA-Z]\b|\d[abknxyz]\b")
SEVERAL = re.compile(r"\b(?:or|between|either|and)\b|\bto\b(?=\s*\d)", re.IGNORECASE)
LATEX_FRACTION = re.compile(r"\\[dtc]?frac\s*(?:\{\s*(-?[\d.]{1,40})\s*\}|(\d))\s*(?:\{\s*(-?[\d.]{1,40})\s*\}|(\d))")
FRACTION = re.compile(
    rf"[\s{MONEY}]*(-?)\s?(?:(\d{{1,15}})\s)?\s?(-?\d{{1,400}}(?:\.\d+)?)\s?/\s?(\d{{1,400}}(?:\.\d+)?)(?![\d/.])"
)
POWER_OF_TEN = re.compile(
    r"(-?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40}))?\s?(?:[x*\u00d7\u00b7]|\\times|\\cdot)?\s?(?<!\d)10\s?\^\s?\{?\s?([-+]?\d{1,4})\s?\}?"
)
LEAD = re.compile(r"\A(?:[a-zA-Z]{2,}\s)++")
"""Words before it: "about 1/3"."""
FORMULA = re.compile(r"\\[a-z]+|\^|\u221a|\u03c0|\d!")
UNIT = re.compile(r"(?<=\d)\s{0,9}(?:[a-zA-Z\u00b5]{2,20}|[mgsLJNWVAKCF])(?:/[a-zA-Z]{1,9})?\s?\^\s?\{?-?\d\}?")
AROUND = re.compile(r"\s(?:[a-zA-Z]{2,}\s)*+[a-zA-Z]{2,}\.?$|^(?:[a-zA-Z]{2,}\s)++")
"""Words before or behind a formula."""
TIDY = [
    (re.compile(r"\{,\}|\\[,;:! ](?=\d{3})"), ","),
    (re.compile(r"\\(?:left|right|displaystyle|,|;|:|!)|\\(?=[$%#&])|\^\s?\{?\\circ\}?|\u00b0"), " "),
]


def named(source: str) -> str | None:
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
    left, _, right = said.partition(" is ")  # "9 + 8 is 17"
    sides = re.split(r"=|\u2248|\\approx|\\equiv", right if right and UNSOLVED.search(left) else said)
    if len({name for name in re.findall(r"(?<![\w\\])([a-zA-Z])\s{0,9}=", said)}) > 1:
        return ""
    found = [_value(side) for side in sides]
    return next((each for each in reversed(found) if each), found[-1])


def _value(said: str) -> str | None:
    said = LATEX_FRACTION.sub(lambda of: f" {of[1] or of[2]}/{of[3] or of[4]}", said).replace("- ", "-", 1)
    if power := POWER_OF_TEN.fullmatch(said.strip(" .$%")):
        return written(float(f"{power[1] or 1}e{power[2]}")) or ""
    if fraction := FRACTION.match(LEAD.sub("", said)):
        return _fraction(fraction) if not figures(fraction.string[fraction.end() :]) else ""
    if lone := re.fullmatch(rf"[\s{MONEY}]*(-?\d+),(\d{{1,2}})\s?(?:[^\d\s,]\D*)?", said):
        return written(float(f"{lone[1]}.{lone[2]}"))
    said = UNIT.sub("", said)
    if FORMULA.search(said):
        return _formula(said)
    if UNSOLVED.search(said) or ALGEBRA.search(said):
        return ""
    return _in_words(said)


def _in_words(said: str) -> str | None:
    """The first number of a phrase, in figures or words; none of several that are told apart by "or" or "to"."""
    found = figures(said)
    if len({value for _, _, value in found}) > 1 and SEVERAL.search(said[max(0, found[0][0] - 9) : found[1][1]]):
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
    latex = AROUND.sub("", " ".join(said.split())).strip(" .")
    latex = re.sub(r"\u221a\s?\(?(\d+)\)?", r"\\sqrt{\1}", latex)
    value = worked_out(latex.replace("\u03c0", r"\pi ").replace("\u00d7", r"\times "))
    return "" if value is None else written(value) or ""
