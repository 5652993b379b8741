r"""Parser of the number that a phrase names, in figures, words, a fraction or a formula; "29 - 7" names none.

An expression counts by its stated result, and not at all without one. A notation for a number counts by its value: a
fraction, 2 \times 10^3, \sqrt{16}.
"""

import math
import re
from collections.abc import Callable

from sottovoce.prompts.kinds.formula import worked_out
from sottovoce.prompts.kinds.nothing import SAYS_NOTHING, UNKNOWN
from sottovoce.prompts.kinds.numerals import MONEY, SPELLED, figures, simple, spelled, written
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
_HEDGE = (
    r"(?:(?:exactly|only|just|about|approximately|around|roughly|nearly|a total of|therefore|thus|rs|usd)\W{1,3}){0,2}"
)
OPENS = re.compile(rf"[^\w\\]{{0,9}}{_HEDGE}[^\w\\]{{0,9}}(?:\d|{SPELLED.pattern})", re.IGNORECASE)
"""The beginning of a phrase of a number and its unit."""
SPELLED_FIRST = re.compile(rf"\W*{SPELLED.pattern}(?=\s?(?:[:,(]|\Z))", re.IGNORECASE)
TELLS = re.compile(
    r"\b(?:is|are|was|were|makes?|gives?|costs?|totals?|comes? to|amounts? to|total of|i\.e\."
    r"|namely|that is|leaves|has|have)"
    rf",?\s{_HEDGE}",
    re.IGNORECASE,
)
"""The verb of a sentence, and words that may come between it and its number."""
LEAD = re.compile(r"\A(?:[a-zA-Z]{2,}\s)++")
"""Words before a fraction: "about 1/3"."""
BEHIND = re.compile(r"(?<=\d)\s(?:[a-zA-Z\u00b5]{2,20}|[mgsLJNWVAKCF])(?:/[a-zA-Z]{1,9})?\Z")
"""A unit after a power of ten."""
FORMULA = re.compile(r"\\[a-z]+|\^|\u221a|\u03c0|\d!")
UNIT = re.compile(r"(?<=\d)\s{0,9}(?:[a-zA-Z\u00b5]{2,20}|[mgsLJNWVAKCF])(?:/[a-zA-Z]{1,9})?\s?\^\s?\{?-?\d\}?")
AROUND = re.compile(r"\s(?:[a-zA-Z]{2,}\s)*+[a-zA-Z]{2,}\.?$|^(?:[a-zA-Z]{2,}\s)++")
"""Words before or after a formula."""
TIDY: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\{,\}|\\[,;:! ](?=\d{3})"), ","),
    (re.compile(r"(?<![\d.,])(\d{1,3}(?: \d{3}){1,9})(?!\d|\s?/)"), lambda of: of[1].replace(" ", "")),  # 52 500
    (re.compile(r"\b(?:is equal to|equals?)\b", re.IGNORECASE), "="),
    (re.compile(r"\\(?:left|right|displaystyle|,|;|:|!)|\\(?=[$%#&])|\^\s?\{?\\circ\}?|\u00b0"), " "),
]


def tidied(text: str) -> str:
    """Return a `simple` text without LaTeX's spaces and signs around numbers, and with "52 500" as one number."""
    text = simple(text)
    for pattern, meaning in TIDY:
        text = pattern.sub(meaning, text)
    return text


def named(source: str) -> str | None:
    """Return the number that a mark names; empty if it says there is none, None if it is about something else."""
    said = tidied(source)
    said = affirmed(_stating(re.split(r"(?<!\bi\.e)[.;!?](?=\s|$)", without_reason(said.strip(), CLAUSE))))
    if UNKNOWN.match(source) or not said:
        return "" if UNKNOWN.match(source) or re.search(r"\d", source) else None
    outside = re.sub(r"\([^()]{0,200}\)", " ", said)  # "42 apples (6 * 7)"
    said = outside if re.search(r"\d", outside) else said
    return _result(said) if "=" in said or _is_phrase(said) else outcome(said) or ""


def _stating(parts: list[str]) -> str:
    """Return the sentence that states a result: the first if it begins with a number, else the last equation."""
    said = [part for part in parts if re.search(r"\w", part)] or parts
    return said[0] if OPENS.match(said[0]) else next((part for part in reversed(said) if "=" in part), said[0])


def _is_phrase(said: str) -> bool:
    """Return whether words name their first number: "about 12 apples in 3 baskets"."""
    is_one = len({value for _, _, value in figures(said)}) < 2
    return is_one or bool(OPENS.match(said) or FORMULA.search(said))


def outcome(sentence: str) -> str | None:
    """Return the number right after the verb of a sentence: 52500 in "The pension after 30 years is $52500"."""
    found = [each for verb in TELLS.finditer(sentence) if (each := _leading(sentence[verb.end() :]))]
    return found[0] if len({*found}) == 1 else None


def _leading(said: str) -> str | None:
    """Return the number that a phrase begins with, in figures or words, unless "or" or "to" follows it."""
    found = figures(said)
    if found and not re.search(r"\w", said[: found[0][0]].strip(MONEY)):
        others = re.match(r"\s?(?:or|to|-)\s?\d", said[found[0][1] :])
        return None if others or UNSOLVED.match(said[found[0][0] :]) else found[0][2]
    words = spelled(said)
    return words[0][1] if words and not re.search(r"\w", said[: words[0][0]]) else None


def _result(said: str) -> str | None:
    """Return the right side of an equation, or the left one if the right is not a result."""
    left, _, right = said.partition(" is ")  # "9 + 8 is 17"
    sides = re.split(r"=|\u2248|\\approx|\\equiv", right if right and UNSOLVED.search(left) else said)
    if len({name for name in re.findall(r"(?<![\w\\])([a-zA-Z])\s{0,9}=", said)}) > 1:
        return ""
    found = [_value(side) for side in sides]
    return next((each for each in reversed(found) if each), found[-1])


def _value(said: str) -> str | None:
    said = LATEX_FRACTION.sub(lambda of: f" {of[1] or of[2]}/{of[3] or of[4]}", said).replace("- ", "-", 1)
    if power := POWER_OF_TEN.fullmatch(BEHIND.sub("", said.strip(" .$%"))):
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
    """Return the first number of a phrase, in figures or words; empty for alternatives with "or" or "to"."""
    found = figures(said)
    if lone := SPELLED_FIRST.match(said):  # "four: 11, 13, 17 and 19"
        return spelled(lone[0])[0][1]
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
    """Return the value of a formula in LaTeX, without words before or after it."""
    latex = AROUND.sub("", " ".join(said.split())).strip(" .")
    latex = re.sub(r"\u221a\s?\(?(\d+)\)?", r"\\sqrt{\1}", latex)
    value = worked_out(latex.replace("\u03c0", r"\pi ").replace("\u00d7", r"\times "))
    return "" if value is None else written(value) or ""
