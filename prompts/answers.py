"""Read an answer from what an agent said; the requests for these forms stand in `answers/*.md`.

What cannot be read is None, an abstention: it is never counted as right and never pooled as a
vote. Order of the readers and their edge cases follow the evaluation code of Du et al. (2023),
CIPHER (arXiv 2310.06272) and SDE (arXiv 2506.19209), without their misreadings (lost minus signs,
thousands commas, a digit of the prompt taken for an answer).
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping
from typing import Any, Literal

from sottovoce.prompts.structured import read_json

Kind = Literal["number", "option", "yes_no", "label", "text"]
KINDS: tuple[Kind, ...] = ("number", "option", "yes_no", "label", "text")

NUMBER = re.compile(r"[-\u2212]?\s?(?:[$\u20ac\u00a3]\s?)?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<![\d.])\.\d+)")
STATED = re.compile(r"\banswer(?:\s+is|\s*:)\s*:?\s*(?=([^\n]{0,400}))", re.IGNORECASE)  # ahead: statements may overlap
UNSOLVED = re.compile(r"\d\s*[-+*/\u00d7\u00f7\u2212]\s*\d|frac")  # an expression that nobody worked out
FRACTION = re.compile(r"(?:\\[dt]?frac\{)?(-?\d+)(?:\s*/\s*|\}\{)(\d+)\}?")
UNKNOWN = re.compile(r"[\W_]*(?:unknown|not known|undetermined|unclear|cannot|can't|none\b)", re.IGNORECASE)
PLACEHOLDERS: dict[Kind, str] = {
    "number": "a number",
    "option": "a letter",
    "yes_no": "yes or no",
    "label": "a label",
    "text": "a few words",
}
OPEN = re.compile(r"\b(?:do not|don't|cannot|can't|could not) (?:know|tell|say|answer|determine)\b", re.IGNORECASE)
"""After a number it takes back that it is the answer."""
PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may bring along."""
MOST_CHOICES = len(string.ascii_uppercase)
TOLERANCE = 1e-5  # of CIPHER's evaluator


def read(text: str, kind: Kind, choices: list[str] | None = None) -> str | None:
    """Return the answer in canonical form, or None where none can be read.

    number: the last boxed content, else what the last "answer is"/"Answer:" states, else the last
    number; `$`, percent, euro and thousands commas are dropped, a minus and decimals are kept. Of an
    equation the right side counts, a lone fraction is its value, an expression without a result none.
    option: the last "(A)", else a stated letter, else the choice whose text was boxed, else the last
    stand-alone letter. label: the last bracketed text. yes_no: "yes" or "no". text: see `_text`.
    An answer that is stated to be unknown is an abstention, whatever numbers stand around it. Of a text
    that ends with a JSON object, the field "answer" is read (CMD's form for GSM8K).
    """
    if text.rstrip("` \n").endswith("}"):
        field = read_json(text, ("answer",), may_be_empty=("answer",)).found.get("answer")
        if field is not None:
            return read_value(field, kind, choices)
    if kind == "option":
        return _option(text, choices or [])
    return {"number": _number, "yes_no": _yes_no, "label": _label, "text": _text}[kind](text)


def same(left: str | None, right: str | None, kind: Kind) -> bool:
    """Tell whether two canonical answers agree; an abstention agrees with nothing.

    Numbers within 1e-5 of each other are the same. Texts are compared after SQuAD's normalisation, but for
    signs that tell one from another ("C++" and "C#", "-5" and "5"); all else without regard to case.
    """
    if left is None or right is None:
        return False
    if kind == "number":
        return math.isclose(float(left), float(right), rel_tol=0.0, abs_tol=TOLERANCE)
    if kind != "text":
        return left.casefold().split() == right.casefold().split()
    plain = normalise(left)
    return plain == normalise(right) and _signs(left) == _signs(right) if plain else left.strip() == right.strip()


def _signs(text: str) -> list[str]:
    """The signs that carry meaning: not those between letters, as in "Jean-Paul"."""
    return re.findall(r"[-+#*/<>=^%]", re.sub(r"(?<=[^\W\d_])[-+#*/](?=[^\W\d_])", "", text))


def named(kind: Kind) -> str:
    """A kind in words: "yes or no"."""
    return kind.replace("_", " or ")


def read_value(given: str, kind: Kind, choices: list[str] | None = None) -> str | None:
    """Return the answer that a field of a form holds, where no mark is needed: all of it is the answer.

    option: a letter in any case, or a choice's text. number: none where several different ones stand there,
    or a "not". yes_no: also true and false; none where both words stand there. label, text: as they are.
    """
    given = " ".join(given.split())
    if kind == "yes_no":
        found = set(re.findall(r"\b(yes|no|true|false)\b", given.lower()))
        return None if len(found) != 1 else "yes" if found & {"yes", "true"} else "no"
    if kind == "option":
        letter = re.fullmatch(r"\W*([A-Za-z])\W*", given)
        known = string.ascii_uppercase[: max(len(choices or []), 4)]
        if letter and letter[1].upper() in known:
            return letter[1].upper()
        return _choice_of(given.rstrip("."), choices or []) or _option(given, choices or [])
    if kind == "number":
        result = given.rsplit("=", 1)[-1]
        several = len({_first([each]) for each in NUMBER.findall(result)}) > 1 and not FRACTION.search(result)
        denied = re.search(r"\bn(ot|either|one)\b", given.lower())
        return None if several or denied else _number(f"The answer is {given}")
    inner = re.fullmatch(r"\[([^\[\]]+)\]", given)
    stated = _boxed(given) or (inner[1] if inner else given)
    return (stated.lower() if kind == "label" else stated).strip() or None


def read_field(given: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """`read_value` for a question, but for the form's own words, which say nothing: models copy them."""
    kind = question.get("kind", "number")
    if normalise(given) == normalise(placeholder(question)):
        return None
    return read_value(given, kind, question.get("choices"))


def placeholder(question: Mapping[str, Any]) -> str:  # Any: see is_open
    """What stands in the place of the answer in a JSON form: the task's own words for it, or the kind's."""
    own = question.get("answer_description") or PLACEHOLDERS[question.get("kind", "number")]
    return " ".join(own.split()).replace('"', "'")


def is_open(given: str, question: Mapping[str, Any]) -> bool:  # Any: a Question, which stands above this module
    """Tell whether a field that may stay empty says nothing yet; "unknown" may be a task's own label."""
    return not re.search(r"\w", given) or (question.get("kind") != "label" and bool(UNKNOWN.match(given)))


def declines(text: str) -> bool:
    """Tell whether a text states that the answer is unknown: an abstention that needs no asking again."""
    return any(source and UNKNOWN.match(source) for source in (_boxed(text), _stated(text)))


def right(answer: str | None, question: Mapping[str, Any]) -> bool:  # Any: see is_open
    """Tell whether a canonical answer is the question's target."""
    return same(answer, question.get("target"), question.get("kind", "number"))


def lettered(choices: list[str]) -> list[str]:
    """Choices as agents read them, "(A) red": the letters are what an answer names."""
    letters = zip(string.ascii_uppercase, choices, strict=False)
    return [f"({letter}) {PREFIX.sub('', choice)}" for letter, choice in letters]


def normalise(text: str) -> str:
    """SQuAD's normalisation: lower case, no ASCII punctuation, no articles, single spaces."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _number(text: str) -> str | None:
    for source in (_boxed(text), _clause(_stated(text))):
        if source is None:
            continue
        result = source.rsplit("=", 1)[-1]  # "29 - 7 = 22" is 22
        if UNKNOWN.match(source) or (UNSOLVED.search(result) and not FRACTION.fullmatch(result.strip(" $."))):
            return None
        return _fraction(result) or _first(NUMBER.findall(result)) or _last_number(text)
    return _last_number(text)


def _clause(stated: str | None) -> str | None:
    return None if stated is None else re.split(r"[.;!?](?=\s|$)", stated)[0]


def _fraction(text: str) -> str | None:
    """The value of "1/2" or a LaTeX fraction that stands alone; division by zero is no number."""
    found = FRACTION.fullmatch(text.strip(" $."))
    if found is None or not float(found[2]):
        return None
    return _first([repr(float(found[1]) / float(found[2]))])


def _last_number(text: str) -> str | None:
    # "7-5" read from its end is 5, not -5: a minus right after a digit or bracket is an operator.
    found = [match for match in NUMBER.finditer(text)]
    if not found:
        return None
    match = found[-1]
    if OPEN.search(text, match.end()):
        return None
    minus_is_operator = match[0][0] in "-\u2212" and text[: match.start()].rstrip()[-1:] in tuple("0123456789)")
    return _first([match[0][1:] if minus_is_operator else match[0]])


def _first(found: list[str]) -> str | None:
    if not found:
        return None
    digits = re.sub(r"[^\d.\-]", "", found[0].replace("\u2212", "-"))
    value = float(digits)
    if math.isinf(value):  # hundreds of digits: a model that repeats itself
        return None
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _stated(text: str) -> str | None:
    found = STATED.findall(text)
    return found[-1] if found else None


def _boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}`, to its matching brace; an unclosed one runs to the end."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, content = 1, text[start + len("\\boxed{") :]
    for at, letter in enumerate(content):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return content[:at]
    return content


def _option(text: str, choices: list[str]) -> str | None:
    last = string.ascii_uppercase[max(len(choices), 4) - 1]
    text = text.replace("(X)", "")  # the form's own example in the prompts of SDE
    bracketed: list[str] = re.findall(rf"\(([A-{last}])\)", text)
    if bracketed:
        return bracketed[-1]
    stated = _stated(text)
    if named := _choice_of(stated and stated.strip().rstrip("."), choices):  # also "None of these"
        return named
    if stated and UNKNOWN.match(stated):
        return None
    letter = re.match(rf"\W*([A-{last}])\b", stated or "")
    if letter:
        return letter[1]
    boxed = _boxed(text)
    if boxed and re.fullmatch(rf"[A-{last}]", boxed.strip()):
        return boxed.strip()
    by_text = _choice_of(boxed, choices)
    alone = re.findall(rf"(?<![\w'])([A-{last}])(?![\w'])", text)
    # A capital "A" that begins a sentence is an article far more often than an answer.
    alone = [a for a in alone if a != "A" or re.search(r"(?<![\w'])A(?!\s+[a-z])(?![\w'])", text)]
    return by_text or (alone[-1] if alone else None)


def _choice_of(boxed: str | None, choices: list[str]) -> str | None:
    if boxed is None:
        return None
    for letter, choice in zip(string.ascii_uppercase, choices, strict=False):
        if normalise(PREFIX.sub("", choice)) == normalise(boxed):
            return letter
    return None


def _yes_no(text: str) -> str | None:
    for source in (_boxed(text), _stated(text), text):
        if source is not text and UNKNOWN.match(source or ""):
            return None
        found = re.findall(r"\b(yes|no)\b", (source or "").lower())
        if found:
            return str(found[0] if source is not text else found[-1])
    return None


def _label(text: str) -> str | None:
    found = re.findall(r"\[([^\[\]\n]{1,60})\]", text)
    return found[-1].strip().lower() if found else None


def _text(text: str) -> str | None:
    """Boxed, else bracketed, else stated content; a whole text without a mark is no answer."""
    found = re.findall(r"\[([^\[\]\n]{1,200})\]", text)
    stated = _stated(text)
    source = _boxed(text) or (found[-1] if found else None) or (stated and stated.split("\n")[0].rstrip(" ."))
    return source.strip() or None if source else None
