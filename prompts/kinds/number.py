r"""Numbers: money, per cent, units and separators of thousands are dropped; a minus and decimals stay.

A statement counts by its result, the number after its last "=", "≈" or "is" ("29 - 7 = 22"), else by its only number.
Several different numbers are an abstention, and so is "29 - 7" alone. The comma of a lone number is a decimal comma
unless three figures follow it. Words that change a number ("twice 15", "80 below zero") leave nothing to read.
"""

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.kind import UNKNOWN, VERB, Choices, Kind, affirmed
from sottovoce.prompts.kinds.latex import value

MONEY = "$\u20ac\u00a3\u00a5\u20b9"
_THIN = "\u00a0\u2009\u202f'_"
_DIGITS = (
    r"\d{1,3}(?:,\d{3}){1,99}(?!\d)(?:\.\d+)?|\d{1,2}(?:,\d{2}){1,9},\d{3}(?!\d)(?:\.\d+)?"  # 1,234.5 and 12,34,567
    r"|\d{1,3}(?:\.\d{3}){1,99},\d+|\d{1,3}(?:\.\d{3}){2,99}(?!\d)"  # 1.234,5 and 1.234.567
    rf"|\d{{1,3}}(?:[{_THIN}]\d{{3}}){{1,99}}(?!\d)(?:[.,]\d+)?"
    r"|\d+(?:[.,]\d+)?(?:[eE][-+]?\d{1,4}\b)?|(?<!\d)\.\d+"
)
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
SYMBOLS = {"k": 1000, "K": 1000, "M": 10**6, "B": 10**9}
FIGURE = re.compile(
    rf"(?P<sign>(?<![\d)a-zA-Z])-\s?)?(?:[{MONEY}]\s?)?(?P<minus>-)?(?P<digits>{_DIGITS})(?![\d])"
    rf"(?:[\s-]?(?P<scale>(?i:{'|'.join(SCALES)}))s?\b|(?P<symbol>[kKMB])(?![\w/]))?"
)
FRACTION = re.compile(
    rf"(?P<sign>(?<![\w)])-\s?)?[{MONEY}]?(?:(?P<whole>\d{{1,15}})\s)?(?P<above>\d{{1,99}}(?:\.\d+)?)\s?/\s?"
    r"(?P<below>\d{1,99}(?:\.\d+)?)(?![\d/.,]\d)"
)
SIGNS = str.maketrans({"\u2013": "-", "\u00f7": "/", "\u2044": "/", "\u00b0": " ", "\u00bd": " 1/2", "\u2153": " 1/3"})
SIGNS |= str.maketrans({"\u2154": " 2/3", "\u00bc": " 1/4", "\u00be": " 3/4", "\u2212": "-"})
RAISED = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b", "0123456789-")
HEDGES = "exactly|only|just|about|approximately|around|roughly|nearly|a total of|equal to"
MONEY_WORDS = "usd|eur|euros?|dollars?|rs"
HEDGE = rf"(?:(?:{HEDGES}|{MONEY_WORDS})\.?\s){{0,2}}"
RESULT = re.compile(
    r"=|\u2248|\u2192|\\approx|\\equiv|\b(?:is|are|was|were|equals?|makes?|gives?|costs?|totals?|comes? to)"
    rf"[,:]?\s(?={HEDGE}[{MONEY}]?\s?-?\d)",
    re.IGNORECASE,
)
"""Signs and verbs before a result."""
OPENS = re.compile(rf"[^\w\\]{{0,9}}{HEDGE}[^\w\\]{{0,3}}[\d\\]", re.IGNORECASE)
OPERATION = re.compile(r"\d[\s)}]{0,9}(?:[-+*/\u00d7\u00b7:^]|\\times|\\cdot|\\div)[\s({]{0,9}[-(]?\d")
ALGEBRA = re.compile(r"(?<![\w\\])[a-zA-Z]\s?[-+*/^]\s?\d|\d\s?[-+*/^]\s?[a-zA-Z]\b|\d[abnxyz]\b")
FORMULA = re.compile(r"\\[a-z]+|\d\s?\^|\u221a|\u03c0|\d!")
BEFORE = re.compile(
    rf"(?:[\s:,.'\"\u201c*_#+{MONEY}\[]|\b(?:the|an?|so|therefore|thus|now|still|in|day|year|there|it|is|are|{HEDGES}|{MONEY_WORDS})\b)*+",
    re.IGNORECASE,
)
"""Words before a number that leave it as it is."""
REMARK = re.compile(
    r"(?<=[a-zA-Z.,]\s)\([^()]{0,200}\)"
    r"|(?<=[\d%.,]\s)\((?!\s?-?[\d.]{1,20}\s?[-+*/]\s?[-+*/.\d\s]{1,200}\))[^()]{0,200}\)(?!\s?\^)"
)
"""A remark in parentheses, which are no factor of a product."""
BEHIND = re.compile(r"[\s%\u00b0.!*_'\"\u201d$\u20ac\u00a3\u00a5\u20b9)\]}]*(?:[^\W\d][^\s\d+<>|;?]*[\s.!*_)]*){0,6}")
"""Words behind a number, such as its unit."""
CHANGES = re.compile(
    r"\b(?:or|to|than|more|less|fewer|below|above|under|over|short|times (?:as|the)|minus|before|after|between|least"
    r"|most|zero|debt|deficit|overdrawn|overdraft|schulden|loss|in the red|too|bc|bn|mln|tsd|pp|percentage points|mio"
    r"|mrd|mill|milliard\w*|lakhs?|crores?|tausend|mille)\b|\u00b1"
    r"|\b(?:colder|warmer|lower|higher|greater|smaller|down)\W*\Z",
    re.IGNORECASE,
)
"""Words and signs around a number that make it another one."""
SCALED = re.compile(r"\s*of\b|\s[KMB]\b")
"""A share of something (the sign of per cent is dropped), and a symbol that may be a scale or a unit."""
EITHER = re.compile(r"(?<![\d.,])[1-9]\d{0,2}[.,]\d{3}(?![\d.,]?\d)")
THOUSANDS = re.compile(
    rf"(?<![\d.,])[1-9]\d{{0,2}}\.\d{{3}}(?:,\d|\s?[{MONEY}]|\s?(?:EUR|[Ee]uros?)\b)|[{MONEY}]\s?[1-9]\d{{0,2}}\.\d{{3}}(?!\d)"
)
"""A figure in which a point separates thousands."""
UNIT = re.compile(r"(?<=[\d}])\s{0,3}(?:[a-zA-Z\u00b5]{2,20}|[mgsLJNWVAKCF])(?:/[a-zA-Z]{1,9})?\s*\Z")
POWER_UNIT = re.compile(
    r"(?:(?<=[\d}])|(?<=[\d}]\s)|(?<=/))(?![abknxyz]\b)[a-zA-Z\u00b5]{1,12}\s?(?:\^\s?\{?-?\d\}?|[\u00b2\u00b3])"
)
TIDY: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\{,\}|\\[,;:! ](?=\d{3})"), ","),
    (re.compile(r"(?<![\d.,/])(\d{1,3}(?: \d{3}){1,9})(?!\d|\s?/)"), lambda of: of[1].replace(" ", "")),  # 52 500
    (re.compile(r"\\(?:left|right|displaystyle|,|;|:|!)|\\(?=[$%#&])|\^\s?\{?\\circ\}?|\\?%"), " "),
    (re.compile(r"\\([dt]frac)"), r"\\frac"),
    (re.compile(r"\b(?:minus|negative)\s(?=\d)", re.IGNORECASE), "-"),
    (re.compile(r"(?<=\d)[\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+"), lambda of: f"^{of[0].translate(RAISED)}"),
    (re.compile(r"[^\x00-\x7f]"), lambda of: str(int(of[0])) if of[0].isdecimal() else of[0]),
]
SEVERAL = re.compile(
    r"=[^=\n]{0,80}(?:\bor\b|\band\b|[,;])\s{0,9}[a-zA-Z]\s{0,9}=|\b([a-zA-Z])\s{0,9}=[^=\n]{0,80}\b(?!\1)[a-zA-Z]\s{0,9}="
)
"""Several unknowns, or two values of one: "x = 5 or x = 7"."""
LONGEST = 1000  # characters of a statement


def read(said: str, choices: Choices) -> str | None:
    """Return the number of a statement; empty if it has no number or several, None if it is about something else."""
    if UNKNOWN.match(said):
        return ""
    said = said[:LONGEST]
    stated = re.sub(r"\A\W*\((\d[\d.,]{0,20})\)\W*\Z", r"\1", affirmed(tidied(said)))
    if not stated:
        return "" if re.search(r"\d", said) else None
    parts = [part for part in re.split(r"(?<!\bi\.e)(?:[.?]|(?<!\d)!)(?=\s|$)", stated) if re.search(r"\w", part)]
    if parts and "\n" not in stated.strip() and (OPENS.match(parts[0]) or RESULT.search(parts[0])):
        stated = parts[0]
    outside = REMARK.sub(" ", stated)  # "42 apples (6 * 7)"
    sides = RESULT.split(outside if re.search(r"\d", outside) else stated)
    if SEVERAL.search(stated) or re.fullmatch(r"[^=]*\d!\W*", stated):  # a factorial, or an exclamation
        return ""
    return next((value for side in reversed(sides) if (value := value_of(side)) is not None), None)


def is_unclear(said: str, reply: str) -> bool:
    """Return whether a point or comma may separate thousands or decimals, as in "1.320" beside "1.080 \u20ac"."""
    return bool(EITHER.search(said) and THOUSANDS.search(reply))


def tidied(text: str) -> str:
    """Return a text with ASCII digits and minus, ½ as 1/2, powers as ^, and without LaTeX's spaces and signs."""
    text = text.translate(SIGNS)
    for pattern, replacement in TIDY:
        text = pattern.sub(replacement, text)
    return text


def value_of(side: str) -> str | None:
    """Return the value of one side of an equation, or of a phrase with one number; as `read`.

    Of the words around a number only those are passed over that leave it as it is: "about 30 seats", not "twice 15".
    """
    side = POWER_UNIT.sub("", side)
    if not re.search(r"\d|\\[a-z]|\u03c0", side):
        return None
    if FORMULA.search(side):
        return "" if CHANGES.search(side) else _formula(side)
    numbers = [*FRACTION.finditer(side)] or [*FIGURE.finditer(side)]
    if len(numbers) != 1 or OPERATION.search(FRACTION.sub(" ", side)) or ALGEBRA.search(side):
        return ""
    number = numbers[0]
    before, behind = side[: number.start()], side[number.end() :]
    is_another = SCALED.match(behind) or CHANGES.search(behind) or VERB.search(behind)
    if is_another or not BEFORE.fullmatch(before) or not BEHIND.fullmatch(behind):
        return ""
    if number.re is FIGURE:
        return canonical(figure_value(number)) or ""
    above, below = Fraction(number["above"]), Fraction(number["below"])
    amount = Fraction(number["whole"] or 0) + above / below if below else None
    return canonical(-amount if amount and number["sign"] else amount) or ""


def figure_value(figure: re.Match[str]) -> Fraction:
    """Return the value of a match of `FIGURE`."""
    digits = re.sub(rf"[{_THIN}]", "", figure["digits"])
    if "." in digits and "," in digits:  # the last one is the decimal sign
        thousands = "," if digits.rfind(".") > digits.rfind(",") else "."
        digits = digits.replace(thousands, "").replace(",", ".")
    elif digits.count(".") > 1 or re.fullmatch(r"[1-9]\d{0,2}(?:,\d{2,3})*,\d{3}", digits):
        digits = digits.replace(".", "").replace(",", "")
    scale = SCALES[figure["scale"].lower()] if figure["scale"] else SYMBOLS.get(figure["symbol"], 1)
    return Fraction(digits.replace(",", ".")) * scale * (-1 if figure["sign"] or figure["minus"] else 1)


def canonical(value: Fraction | None) -> str | None:
    """Return a value in canonical form, "22", "-3.5", "1e-08"; None if it is too large, or there is none."""
    if value is None or abs(value) > 1e300:
        return None
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _formula(side: str) -> str:
    """Return the value of a formula in LaTeX, without its unit and the words before it."""
    said = BEFORE.match(side)
    latex = " ".join(UNIT.sub("", side[said.end() if said else 0 :]).split()).strip(" .,")
    latex = re.sub(r"\u221a\s?\(?(\d+)\)?", r"\\sqrt{\1}", latex).replace("\u03c0", r"\pi ")
    latex = re.sub(r"(?<=\d)\s?[x*\u00d7\u00b7]\s?(?=10\s?\^)", r"\\times ", latex)
    found = value(latex)
    return "" if found is None else canonical(Fraction(f"{found:.15g}")) or ""


BARE = re.compile(
    r"(?:(?:so|therefore|thus|hence|then),?\s)?"
    r"(?:(?:the\s(?:\w+\s){1,4}|it\s|this\s|that\s|[a-z]\s)(?:is|was|=|equals)\s)?"
    rf"{HEDGE}[^\w\s]{{0,3}}\s?[-\d.,/\u2044\u00bd\u00bc\u00be{MONEY}{_THIN}%\\ ]{{1,40}}"
    r"(?:[\w%]*[a-zA-Z%],?\s?){0,3}\W{0,3}",
    re.IGNORECASE,
)
"""A number with at most three words behind, and before it only "the ... is"."""


def is_bare(line: str, choices: Choices) -> bool:
    """Return whether a line is a number with its unit, in figures or a formula, or an equation."""
    left, sign, right = line.rpartition("=")
    if sign:
        return bool(BARE.fullmatch(right.strip())) and len(re.findall(r"[a-zA-Z]{3,}", left)) <= 3 and "." not in left
    is_formula = FORMULA.search(line) and not re.search(r"(?<!\\)\b[a-z]{3,}", line)
    is_own = not re.search(r"\b(?:answer|agents?|first|other|step|round)\b", line, re.IGNORECASE)
    return bool(is_formula or (is_own and BARE.fullmatch(line)))


def same(left: str, right: str) -> bool:
    """Return whether two numbers are equal up to a relative difference of 1e-4; whole ones that differ are not."""
    one, other = float(left), float(right)
    if one.is_integer() and other.is_integer() and abs(one) < 1e15:
        return one == other
    return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-9)


def target(text: str, choices: Choices) -> str | None:
    """Return the value of a target, also "1,234", "$5.00", "12%" and "2/3"; None if it is not one number."""
    plain = tidied(text).strip().removeprefix("+")
    return value_of(plain) or None if FRACTION.fullmatch(plain) or FIGURE.fullmatch(plain) else None


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is not a number."""
    text = question.get("target", "0")
    if not isinstance(text, str) or target(text, ()) is None:
        raise UsageError(f"target is {text!r}; expected a number, such as 22, -3.5, 2/3, 1,234 or $5.00")


DIGITS = Form(pattern=r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?", optional=True)
NUMBER = Kind(
    "number",
    "answers/number",
    "a number",
    read,
    is_bare,
    same,
    grammar=lambda choices: DIGITS,
    check=check,
    target=target,
    is_unclear=is_unclear,
)
