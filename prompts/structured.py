"""Parser of JSON objects as models really write them; nothing is ever evaluated.

Repairing parsers (json-repair 0.64.5) guess where we must not: they accept truncated values and drop percent
signs, and their time is quadratic in the length of a hostile text. This parser knows the wanted fields, skips
nested values, and reads a text once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LONGEST = 50_000  # characters; only the end of a longer text is read, where an answer is
RETRIES = 5  # searches inside strings that are never closed

COMMENT = r"//[^\n]*|\#[^\n]*|/\*(?s:.*?)(?:\*/|\Z)"
BETWEEN = re.compile(rf"(?:\s|[,;]|{COMMENT})*+")
SPACE = re.compile(rf"(?:\s|{COMMENT})*+")
QUOTED_KEY = (
    r"""(?:"((?:[^"\\\n]|\\.){0,100}+)"|'([^'\n]{1,100}+)'"""
    r"""|“([^“”"\n]{1,100}+)[“”"]|\u2018([^\u2018\u2019'\n]{1,100}+)[\u2018\u2019'])\s*+[:=]"""
)
BARE_KEY = r"([^\W\d][\w -]{0,59}+)[:=]"
KEY = re.compile(f"{QUOTED_KEY}|{BARE_KEY}")
# No brace within these comments, so that the search for a start reads no character twice.
START = re.compile(rf"\{{(?=(?:\s|(?://|\#)[^\n{{]*+\n|/\*[^*{{]*+\*/)*+(?:{QUOTED_KEY}|{BARE_KEY}))")
OPENING = {'"': '"', "'": "'", "“": '“”"', "\u2018": "\u2018\u2019'"}
"""The closing quotes of a string, by the opening quote."""
CLOSED = r"[}\]]|\Z|//|\#|/\*|```"
CUT_KEY = r"""["'“\u2018][\w -]{0,60}+\Z"""
VALUE_ENDS = re.compile(
    rf"\s*+(?:{CLOSED}|[,;]\s*+(?:{CLOSED}|{CUT_KEY}|{QUOTED_KEY}|{BARE_KEY})|{QUOTED_KEY})|[^\S\n]*+\n\s*+{BARE_KEY}"
)
"""Text after a quote that closes a value; any other quote belongs to the text."""
ITEM_ENDS = re.compile(rf"\s*+(?:{CLOSED}|[,;:])")
BARE = re.compile(r"(?:,(?=\d{3}(?![\d\w]))|(?<!\s)[#/]|/(?![/*])|[^,;}\]\n#/])*+")  # 1,200 is one number
ITEM = re.compile(r"(?:(?<!\s)[#/]|/(?![/*])|[^,;:{}\[\]\n#/])*+")
ESCAPE = re.compile(r"((?:\\u[0-9a-fA-F]{4})+)|\\(.)", re.DOTALL)
DECIMAL = r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:e[-+]?\d+)?"
STATED = re.compile(
    rf"\bconfiden(?:ce|t)(?:[ _]level)?\b[^\w\n]{{0,6}}(?:(?:is|of|at|about|around)\s){{0,2}}"
    rf"({DECIMAL}\s*(?:%|/\s*10+)?)",
    re.IGNORECASE,
)
CONFIDENCE = re.compile(rf"[~\u2248]?\s*({DECIMAL})\s*(?:(%|\uff05|per ?cent)|/\s*(10|100))?\.?", re.IGNORECASE)


@dataclass(frozen=True)
class Structured:
    """The fields of an object in a model's text, each value as text: `5`, `True`, `85%`."""

    values: Mapping[str, str]
    """Values by wanted name, in the order of the names. Lists are joined with commas, null is empty."""
    missing: Mapping[str, str]
    """The reason that a wanted field has no value, as the rest of a sentence: "is cut off"."""
    span: tuple[int, int] = (0, 0)
    """Beginning and end of the object in the text, in characters."""


@dataclass(frozen=True)
class _Value:
    text: str
    end: int
    why: str = ""  # the reason that the value is unusable


def read_json(text: str, names: Sequence[str], may_be_empty: Sequence[str] = ()) -> Structured:
    """Return the wanted fields of the object that has most of them; the last of several such objects.

    Names match regardless of case, spaces, underscores and other signs. Fences, comments, surrounding
    prose, stray commas, any quotes or none, quotes and line ends inside strings, and a missing end of the
    object are tolerated. Values that end with the text instead of their closing sign are refused, since "12"
    may have been "125". Nested objects are skipped. The last of repeated fields counts.
    """
    best = Structured({}, dict.fromkeys(names, "is missing: there is no JSON object"))
    for read in read_objects(text, names, may_be_empty):
        if len(read.missing) <= len(best.missing):
            best = read
    return best


def read_objects(text: str, names: Sequence[str], may_be_empty: Sequence[str] = ()) -> Iterator[Structured]:
    """Yield the wanted fields of each object, in the order of the text; see `read_json`."""
    skipped = max(0, len(text) - LONGEST)
    for fields, start, end in _objects(text[skipped:]):
        of = {name: fields.get(_plain(name), _Value("", 0, "is missing")) for name in names}
        empty = {name: "" if value.text or name in may_be_empty else "is empty" for name, value in of.items()}
        missing = {name: why for name, value in of.items() if (why := value.why or empty[name])}
        values = {name: of[name].text for name in of if name not in missing}
        yield Structured(values, missing, (skipped + start, skipped + end))


def read_lines(text: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the wanted fields from lines `name: value`, which some models write instead of an object.

    Names match regardless of case, underscores and Markdown; a value runs to the next wanted name, and the last of
    repeated fields counts.
    """
    names = "|".join(re.sub(r"_", r"[ _]", re.escape(name)) for name in sorted(keys, key=len, reverse=True))
    line = re.compile(rf"^[^\w\n]{{0,9}}({names})[^\w\n:]{{0,4}}:[^\S\n]*", re.IGNORECASE | re.MULTILINE)
    text = text[-LONGEST:]
    lines = list(line.finditer(text))
    ends = [*(match.start() for match in lines), len(text)][1:]
    values = {_plain(match[1]): text[match.end() : end] for match, end in zip(lines, ends, strict=False)}
    return {name: values[_plain(name)].strip(" \n*_`\"',") for name in keys if _plain(name) in values}


def stated_confidence(text: str) -> str | None:
    """Return the number after the last "confidence" in a text, as written; None if there is none."""
    numbers = STATED.findall(text[-LONGEST:])
    return numbers[-1] if numbers else None


def read_confidence(stated: str | None) -> float | None:
    """Return a confidence as a number, or None if it cannot be parsed: words, ranges, NaN, nothing.

    A percent sign divides by 100, and "9/10" is a fraction. Values above 10 up to 100 are percentages without a
    sign: 85 does not mean certainty. Decimals may have a comma. Values outside 0 to 1 ("300 %", "7") are returned
    unchanged: see `clamped`.
    """
    match = CONFIDENCE.fullmatch((stated or "").strip())
    value = float(match[1].replace(",", ".")) if match else math.inf
    if match is None or math.isinf(value):  # hundreds of digits
        return None
    if match[3]:
        return value / int(match[3])
    return value / 100 if match[2] or 10 < value <= 100 else value


def clamped(confidence: float) -> float:
    """Return the nearest value in [0, 1]."""
    return min(1.0, max(0.0, confidence))


def recalibrated(p: float) -> float:
    """Return the weight of a vote with stated confidence `p`, clamped to [0, 1] (ReConcile, section 3)."""
    assert not math.isnan(p), "an unreadable confidence is None, not NaN"
    weights = ((1.0, 1.0), (0.9, 0.8), (0.8, 0.5))
    return next((weight for least, weight in weights if p >= least), 0.3 if p > 0.6 else 0.1)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _objects(text: str) -> Iterator[tuple[dict[str, _Value], int, int]]:
    """Yield the fields of every outermost object, by plain names, with its beginning and end, in order."""
    start, retries = START.search(text), 0
    while start:
        fields, end = _fields(text, start.end())
        yield fields, start.start(), abs(end)
        if end < 0:  # a string that begins there is never closed: the intended object may come after it
            end = -end if (retries := retries + 1) <= RETRIES else len(text)
        start = START.search(text, end)


def _fields(text: str, at: int) -> tuple[dict[str, _Value], int]:
    """Return the fields of an object and its end, or as a negative number the beginning of its unclosed last value."""
    fields: dict[str, _Value] = {}
    while True:
        at = _after(BETWEEN, text, at)
        key = KEY.match(text, at)
        if key is None:  # the end of the object, or text that is not part of one
            return fields, at + (text[at : at + 1] == "}")
        at = _after(SPACE, text, key.end())
        value = _value(text, at)
        fields[_plain(_unescaped(key[key.lastindex or 0]))] = value
        if value.end == len(text) and value.why:
            return fields, -at if text[at : at + 1] in OPENING else value.end
        at = value.end


def _value(text: str, at: int) -> _Value:
    first = text[at : at + 1]
    if first in OPENING:
        return _string(text, at, VALUE_ENDS)
    if first in ("{", "["):
        return _nested(text, at)
    end = _after(BARE, text, at)
    bare = text[at:end].strip()
    why = "is cut off" if end == len(text) else ""
    return _Value("" if bare in ("null", "None", "undefined") else bare, end, why)


def _string(text: str, at: int, ends: re.Pattern[str]) -> _Value:
    quotes = OPENING[text[at]]
    for sign in re.compile(rf"\\.|[{quotes}]", re.DOTALL).finditer(text, at + 1):
        if sign[0][0] == "\\" or not ends.match(text, sign.end()):
            continue
        body = text[at + 1 : sign.start()]
        if re.match(rf"[^{{}}]*+\}}(?s:.*?)\{{\s*+[{quotes}]", body):  # it leaves its object and enters another
            break
        return _Value(_unescaped(body).strip(), sign.end())
    return _Value("", len(text), "is cut off")


def _nested(text: str, at: int) -> _Value:
    """Return the texts of a list, joined; nested lists and objects are skipped by counting, without recursion."""
    is_list, depth, texts = text[at] == "[", 0, list[str]()
    while at < len(text):
        if text[at] in "{[":
            depth, at = depth + 1, at + 1
        elif text[at] in "}]":
            depth, at = depth - 1, at + 1
            if depth == 0:
                return _Value(
                    re.sub(r"(?<=[.!?]), ", " ", ", ".join(filter(None, texts))),
                    at,
                    "" if is_list else "is an object, not a text",
                )
        else:
            quoted = text[at] in OPENING
            end = _after(ITEM, text, at)
            item = _string(text, at, ITEM_ENDS) if quoted else _Value(text[at:end].strip(), max(end, at + 1))
            if depth == 1:
                texts.append(item.text)
            at = item.end
        at = _after(BETWEEN, text, at)
    return _Value("", at, "is cut off")


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match, "these patterns match nothing too"
    return match.end()


def encodable(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate, which JSON may escape but files and states cannot store."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(text: str) -> str:
    r"""Return a text with JSON's escapes decoded, except \b and \f, which begin LaTeX's \boxed and \frac."""

    def meaning(match: re.Match[str]) -> str:
        if match[1]:
            return encodable(json.loads(f'"{match[1]}"'))
        signs = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "/": "/", "\\": "\\", "\n": "\n"}
        return signs.get(match[2], match[0])

    return ESCAPE.sub(meaning, text)
