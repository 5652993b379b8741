r"""Numbers in a phrase: in figures of different countries, in words, as a fraction or a formula; "29 - 7" has none.

An expression counts by its stated result, and not at all without one. A notation for a number counts by its value: a
fraction, 2 \times 10^3, \sqrt{16}. LaTeX formulas are rare. They are evaluated in a separate process, which starts with
the first formula in half a second, takes about 10 ms for each, is killed when it hangs, and ends with ours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from sottovoce.core.worker import Worker
from sottovoce.prompts.kinds.prose import CLAUSE, SAYS_NOTHING, UNKNOWN, affirmed, without_reason

UNICODE = {"\u2212": "-", "\u2013": "-", "\uff0d": "-", "\uff0c": ",", "\uff0e": ".", "\uff05": "%", "\u00d7": "\u00d7"}
RAISED = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b", "0123456789-")
PARTS = {"\u00bd": "1/2", "\u2153": "1/3", "\u2154": "2/3", "\u00bc": "1/4", "\u00be": "3/4", "\u215b": "1/8"}
MONEY = "$\u20ac\u00a3\u00a5\u20b9"
GROUPED = (
    r"\d{1,3}(?:,\d{3}){1,99}(?!\d)(?:\.\d+)?|\d{1,2}(?:,\d{2}){1,9},\d{3}(?!\d)(?:\.\d+)?"  # 1,234.5 and 12,34,567
    r"|\d{1,3}(?:\.\d{3}){1,99},\d+|\d{1,3}(?:\.\d{3}){2,99}(?!\d)"  # 1.234,5 and 1.234.567
    r"|\d{1,3}(?:[\u00a0\u2009\u202f'_]\d{3}){1,99}(?!\d)(?:[.,]\d+)?"  # thin spaces, apostrophes
)
FIGURE = re.compile(rf"-?\s?(?:[{MONEY}]\s?)?-?(?:{GROUPED}|\d+(?:\.\d+)?(?:[eE][-+]?\d{{1,4}}\b)?|(?<![\d.])\.\d+)")
NEGATIVE = re.compile(r"(?:(?<=\A)|(?<=[:=(,*$]\s)|(?<=[:=(,*$])|(?<=\bis\s))(?:minus|negative)\s(?=\d)", re.IGNORECASE)
"""A sign in words; between two figures it is an operation."""
CENTURY = re.compile(r"\b\d{1,2}(?:st|nd|rd|th)-century\b", re.IGNORECASE)
"""An adjective, which counts nothing: "a 19th-century woman"."""
SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
SCALE = re.compile(rf"[\s-]?({'|'.join(SCALES)})s?\b", re.IGNORECASE)
UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
VALUES = {word: i for i, word in enumerate(UNITS)} | {word: 20 + 10 * i for i, word in enumerate(TENS)}
_WORD = "|".join(sorted([*VALUES, *SCALES], key=len, reverse=True))
SPELLED = re.compile(rf"\b(?:{_WORD})(?:(?:\s+and\s+|[\s-]+)(?:{_WORD}))*\b", re.IGNORECASE)


def simple(text: str) -> str:
    """Return a text with superscripts as powers, minus and wide signs as ASCII, ½ as 1/2, and all digits as ASCII."""
    text = re.sub(
        r"(?<=\d)[\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+", lambda of: "^" + of[0].translate(RAISED), text
    )
    for sign, meaning in (UNICODE | {part: f" {value}" for part, value in PARTS.items()}).items():
        text = text.replace(sign, meaning)
    text = CENTURY.sub("", NEGATIVE.sub("-", text))
    return re.sub(r"[^\x00-\x7f]", lambda of: str(int(of[0])) if of[0].isdecimal() else of[0], text)


def figures(text: str) -> list[tuple[int, int, str]]:
    """Return beginning, end and `written` value of each figure in a `simple` text; numbers too large are left out."""
    numbers = list[tuple[int, int, str]]()
    for figure in FIGURE.finditer(text):
        scale = SCALE.match(text, figure.end())
        value = canonical(value_of(figure[0]) * (SCALES[scale[1].lower()] if scale else 1))
        numbers += [(figure.start(), scale.end() if scale else figure.end(), value)] if value is not None else []
    return numbers


def value_of(figure: str) -> float:
    """Return the value of a match of `FIGURE`; infinity if it exceeds a float."""
    digits = re.sub(r"[^\d.,eE+-]", "", figure)
    digits = "-" * digits.startswith("-") + digits.lstrip("-")
    point = max(digits.rfind("."), digits.rfind(","))
    is_european = "," in digits and digits.find(".") < digits.find(",") and "." in digits[: digits.find(",")]
    if is_european or re.search(r"\.\d{3}\.", digits) or re.search(r"[\u00a0\u2009\u202f'_]\d{3},\d", figure):
        whole = re.sub(r"[.,]", "", digits[:point]) + ("." if digits[point] == "," else "") + digits[point + 1 :]
        return float(whole)
    return float(digits.replace(",", ""))


def spelled(text: str) -> list[tuple[int, str]]:
    """Return beginning and value of each number in words: "twenty-two", "one hundred and five"."""
    return [(match.start(), canonical(_sum(match[0], text[: match.start()])) or "") for match in SPELLED.finditer(text)]


def _sum(words: str, before: str) -> float:
    """Return the value of number words, negative after "minus"."""
    total = group = 0.0
    for word in re.findall(r"[a-z]+", words.lower().replace(" and ", " ")):
        if word == "hundred":
            group = (group or 1) * 100
        elif word in SCALES:
            total, group = total + (group or 1) * SCALES[word], 0
        else:
            group += VALUES[word]
    is_below = re.search(r"\b(?:minus|negative)\s\Z", before[-10:], re.IGNORECASE)
    return -(total + group) if is_below else total + group


def canonical(value: float) -> str | None:
    """Return a value in canonical form, "22", "-3.5", "1e-08"; None if it is not finite."""
    if not math.isfinite(value):
        return None
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


LONGEST_FORMULA = 200  # characters; no result is longer
WORKER = Worker(Path(__file__).with_name("latex_worker.py"))


@lru_cache(maxsize=4096)  # a message is parsed again at every count of votes
def worked_out(latex: str) -> float | None:
    """Return a formula's value; None if it is too long, has none, or takes too much time or memory."""
    value = None if len(latex) > LONGEST_FORMULA or "\n" in latex else WORKER.ask(latex)
    return None if value is None else float(value)


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
VERBS = re.compile(
    r"\b(?:is|are|was|were|makes?|gives?|costs?|totals?|comes? to|amounts? to|total of|i\.e\."
    r"|namely|that is|leaves|has|have)"
    rf",?\s{_HEDGE}",
    re.IGNORECASE,
)
"""The verb of a sentence, and words that may come between it and its number."""
WORDS_BEFORE = re.compile(r"\A(?:[a-zA-Z]{2,}\s)++")
"""Words before a fraction: "about 1/3"."""
UNIT_BEHIND = re.compile(r"(?<=\d)\s(?:[a-zA-Z\u00b5]{2,20}|[mgsLJNWVAKCF])(?:/[a-zA-Z]{1,9})?\Z")
"""A unit after a power of ten."""
FORMULA = re.compile(r"\\[a-z]+|\^|\u221a|\u03c0|\d!")
POWER_UNIT = re.compile(r"(?<=\d)\s{0,9}(?:[a-zA-Z\u00b5]{2,20}|[mgsLJNWVAKCF])(?:/[a-zA-Z]{1,9})?\s?\^\s?\{?-?\d\}?")
WORDS_AROUND = re.compile(r"\s(?:[a-zA-Z]{2,}\s)*+[a-zA-Z]{2,}\.?$|^(?:[a-zA-Z]{2,}\s)++")
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


def stated_number(source: str) -> str | None:
    """Return the number that a mark names; empty if it says there is none, None if it is about something else."""
    said = tidied(source)
    said = affirmed(_stating(re.split(r"(?<!\bi\.e)[.;!?](?=\s|$)", without_reason(said.strip(), CLAUSE))))
    if UNKNOWN.match(source) or not said:
        return "" if UNKNOWN.match(source) or re.search(r"\d", source) else None
    outside = re.sub(r"\([^()]{0,200}\)", " ", said)  # "42 apples (6 * 7)"
    said = outside if re.search(r"\d", outside) else said
    return _result(said) if "=" in said or _is_phrase(said) else number_after_verb(said) or ""


def _stating(parts: list[str]) -> str:
    """Return the sentence that states a result: the first if it begins with a number, else the last equation."""
    said = [part for part in parts if re.search(r"\w", part)] or parts
    return said[0] if OPENS.match(said[0]) else next((part for part in reversed(said) if "=" in part), said[0])


def _is_phrase(said: str) -> bool:
    """Return whether words name their first number: "about 12 apples in 3 baskets"."""
    is_one = len({value for _, _, value in figures(said)}) < 2
    return is_one or bool(OPENS.match(said) or FORMULA.search(said))


def number_after_verb(sentence: str) -> str | None:
    """Return the number right after the verb of a sentence: 52500 in "The pension after 30 years is $52500"."""
    numbers = [number for verb in VERBS.finditer(sentence) if (number := _leading(sentence[verb.end() :]))]
    return numbers[0] if len({*numbers}) == 1 else None


def _leading(said: str) -> str | None:
    """Return the number that a phrase begins with, in figures or words, unless "or" or "to" follows it."""
    numbers = figures(said)
    if numbers and not re.search(r"\w", said[: numbers[0][0]].strip(MONEY)):
        others = re.match(r"\s?(?:or|to|-)\s?\d", said[numbers[0][1] :])
        return None if others or UNSOLVED.match(said[numbers[0][0] :]) else numbers[0][2]
    words = spelled(said)
    return words[0][1] if words and not re.search(r"\w", said[: words[0][0]]) else None


def _result(said: str) -> str | None:
    """Return the right side of an equation, or the left one if the right is not a result."""
    left, _, right = said.partition(" is ")  # "9 + 8 is 17"
    sides = re.split(r"=|\u2248|\\approx|\\equiv", right if right and UNSOLVED.search(left) else said)
    if len({name for name in re.findall(r"(?<![\w\\])([a-zA-Z])\s{0,9}=", said)}) > 1:
        return ""
    values = [_value(side) for side in sides]
    return next((value for value in reversed(values) if value), values[-1])


def _value(said: str) -> str | None:
    said = LATEX_FRACTION.sub(lambda of: f" {of[1] or of[2]}/{of[3] or of[4]}", said).replace("- ", "-", 1)
    if power := POWER_OF_TEN.fullmatch(UNIT_BEHIND.sub("", said.strip(" .$%"))):
        return canonical(float(f"{power[1] or 1}e{power[2]}")) or ""
    if fraction := FRACTION.match(WORDS_BEFORE.sub("", said)):
        return _fraction(fraction) if not figures(fraction.string[fraction.end() :]) else ""
    if lone := re.fullmatch(rf"[\s{MONEY}]*(-?\d+),(\d{{1,2}})\s?(?:[^\d\s,]\D*)?", said):
        return canonical(float(f"{lone[1]}.{lone[2]}"))
    said = POWER_UNIT.sub("", said)
    if FORMULA.search(said):
        return _formula(said)
    if UNSOLVED.search(said) or ALGEBRA.search(said):
        return ""
    return _in_words(said)


def _in_words(said: str) -> str | None:
    """Return the first number of a phrase, in figures or words; empty for alternatives with "or" or "to"."""
    numbers = figures(said)
    if lone := SPELLED_FIRST.match(said):  # "four: 11, 13, 17 and 19"
        return spelled(lone[0])[0][1]
    if len({value for _, _, value in numbers}) > 1 and SEVERAL.search(said[max(0, numbers[0][0] - 9) : numbers[1][1]]):
        return ""
    if numbers:
        return numbers[0][2]
    words = spelled(said)
    return words[0][1] if words and not SAYS_NOTHING.match(said) else None


def _fraction(match: re.Match[str]) -> str:
    whole, above, below = float(match[2] or 0), float(match[3]), float(match[4])
    if not below or math.isinf(above) or math.isinf(below):
        return ""
    value = whole + above / below
    return canonical(-value if match[1] else value) or ""


def _formula(said: str) -> str | None:
    """Return the value of a formula in LaTeX, without words before or after it."""
    latex = WORDS_AROUND.sub("", " ".join(said.split())).strip(" .")
    latex = re.sub(r"\u221a\s?\(?(\d+)\)?", r"\\sqrt{\1}", latex)
    value = worked_out(latex.replace("\u03c0", r"\pi ").replace("\u00d7", r"\times "))
    return "" if value is None else canonical(value) or ""
