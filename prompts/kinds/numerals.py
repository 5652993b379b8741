"""Plain numbers in the notations of different countries, without formulas."""

import math
import re

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
    text = NEGATIVE.sub("-", text)
    return re.sub(r"[^\x00-\x7f]", lambda of: str(int(of[0])) if of[0].isdecimal() else of[0], text)


def figures(text: str) -> list[tuple[int, int, str]]:
    """Return beginning, end and `written` value of each figure in a `simple` text; numbers too large are left out."""
    found = list[tuple[int, int, str]]()
    for figure in FIGURE.finditer(text):
        scale = SCALE.match(text, figure.end())
        value = written(value_of(figure[0]) * (SCALES[scale[1].lower()] if scale else 1))
        found += [(figure.start(), scale.end() if scale else figure.end(), value)] if value is not None else []
    return found


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
    return [(found.start(), written(_sum(found[0], text[: found.start()])) or "") for found in SPELLED.finditer(text)]


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


def written(value: float) -> str | None:
    """Return a value in canonical form, "22", "-3.5", "1e-08"; None if it is not finite."""
    if not math.isfinite(value):
        return None
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
