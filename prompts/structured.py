"""Reader of JSON objects in a model's text, and of confidences; nothing is ever evaluated.

The standard library parses an object after repairs of models' usual mistakes: LaTeX's backslashes in strings, comments,
extra commas, Python's words and quotes, an object around it. Any other text is not in the form, and is requested again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.prompts.own import BEHIND, is_own, is_upheld

LONGEST = 50_000  # characters; only the end of a longer text is read, where an answer is
RETRIES = 5  # objects that are never closed, each of which is scanned to the end of the text
START = re.compile(r"""\{(?=\s*+["'/#])""")
TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*+")|'(?P<quoted>[^'"\\\n]*+)'|(?P<comment>//[^\n]*|\#[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"""|[^\s"'{}\[\],/#]+|\S""",
    re.DOTALL,
)
ESCAPE = re.compile(r"""\\(["\\/n]|t(?!ext|imes|heta|au|an\b|o\b)|r(?!ight|ho)|u[0-9a-fA-F]{4})?""")
"""An escape of JSON, or a backslash of LaTeX, as in \\boxed and \\frac, which JSON would read as control characters."""
PYTHON = {"True": "true", "False": "false", "None": "null"}
DECODER = json.JSONDecoder(
    strict=False,  # line ends within strings
    parse_int=str,
    parse_float=str,
    parse_constant=str,
    object_pairs_hook=lambda pairs: _fields(pairs),
)
NAMED = ("agent", "speaker", "author")
"""Keys of an object that tells what another agent said."""
DECIMAL = r"[-+]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:e[-+]?\d+)?"
CONFIDENCE = re.compile(
    rf"[~\u2248]?\s*({DECIMAL})\s*(?:(%|\uff05|per ?cent)|(?:/|out of)\s*(10|100))?\.?", re.IGNORECASE
)


@dataclass(frozen=True)
class Structured:
    """The fields of an object in a model's text, each value as text: `5`, `true`, `85%`."""

    values: Mapping[str, str]
    """Values by wanted name, in the order of the names. Lists are joined with commas, null is empty."""
    missing: Mapping[str, str]
    """The reason that a wanted field has no value, as the rest of a sentence: "is missing"."""
    span: tuple[int, int] = (0, 0)
    """Beginning and end of the object in the text, in characters."""


def read_json(text: str, names: Sequence[str], may_be_empty: Sequence[str] = ()) -> Structured:
    """Return the wanted fields of the reply's own object; if several agree, the last one with the most fields.

    Names match regardless of case, spaces, other signs and remarks in parentheses. Two own objects that differ in a
    wanted field do not count. An object that names an agent as its author does not count, either.
    """
    best, stated = Structured({}, dict.fromkeys(names, "is missing: there is no whole JSON object")), dict[str, str]()
    for read in read_objects(text, names, may_be_empty):
        if any(stated.setdefault(name, value) != value for name, value in read.values.items()):
            return Structured({}, dict.fromkeys(names, "is missing: there are two objects that differ"))
        if len(read.missing) <= len(best.missing):
            best = read
    return best


def read_objects(text: str, names: Sequence[str], may_be_empty: Sequence[str] = ()) -> Iterator[Structured]:
    """Yield the wanted fields of each object that is the reply's own, in the order of the text; see `read_json`."""
    skipped, wanted = max(0, len(text) - LONGEST), {name: _plain(name) for name in names}
    text = text[skipped:]
    for outer, start, end in _objects(text):
        if not (is_own(text, start) and is_upheld(text[end : end + BEHIND])) or outer.keys() & {*NAMED}:
            continue
        wrapped = {} if outer.keys() & wanted.values() else outer
        inner = [each for key, each in wrapped.items() if isinstance(each, dict) and not re.search("agent|other", key)]
        for fields in inner or [outer]:
            given = {  # a key may be the beginning of a name: "confidence" of "confidence_level"
                name: fields[key]
                for name, plain in wanted.items()
                for key in fields
                if key == plain or (len(key) > 5 and plain.startswith(key) and plain not in fields)
            }
            texts = {name: _text(value) for name, value in given.items() if not isinstance(value, dict)}
            values = {name: text for name, text in texts.items() if text or name in may_be_empty}
            missing = {name: "is empty" if name in texts else "is missing" for name in names if name not in values}
            yield Structured(values, missing, (skipped + start, skipped + end))


def _objects(text: str) -> Iterator[tuple[JSON, int, int]]:
    """Yield the fields of every outermost object, by plain names, with its beginning and end, in order."""
    start, unclosed = START.search(text), 0
    while start and unclosed <= RETRIES:
        strict, end = _strict(text, start.start())
        unclosed += not strict
        with suppress(ValueError, RecursionError):
            yield DECODER.decode(strict), start.start(), end
        start = START.search(text, end)


def _strict(text: str, start: int) -> tuple[str, int]:
    """Return the object that begins at a place as strict JSON, and its end; empty text if nothing closes it."""
    signs, depth = list[str](), 0
    for token in TOKEN.finditer(text, start):
        kind, sign = token.lastgroup, token[0]
        if sign == '"':  # a string that never ends
            break
        if sign in ("}", "]") and signs[-1] == ",":
            signs.pop()
        if kind == "text":
            sign = ESCAPE.sub(lambda escape: escape[0] if escape[1] else r"\\", sign)
        if kind != "comment":
            signs.append(f'"{token["quoted"]}"' if kind == "quoted" else PYTHON.get(sign, sign))
        depth += (sign in ("{", "[")) - (sign in ("}", "]"))
        if depth == 0:
            return " ".join(signs), token.end()
    return "", start + 1


def _fields(pairs: Sequence[tuple[str, JSONValue]]) -> JSON:
    """Return the fields of an object by plain names; raise a ValueError if it states two values of one."""
    stated: JSON = {}
    if any(stated.setdefault(key, value) != value for key, value in pairs):
        raise ValueError("two values of one field")
    return {_plain(key): value for key, value in pairs}


def _text(value: JSONValue) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value if not isinstance(item, list | dict)) or "[]"
    return "" if value is None else encodable(value if isinstance(value, str) else json.dumps(value)).strip()


def _plain(name: str) -> str:
    return re.sub(r"\s{0,3}\([^()]{0,20}\)|[\W_]+", "", name.casefold())


def encodable(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate, which JSON may escape but files and states cannot store."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_confidence(stated: str | None) -> float | None:
    """Return a confidence in [0, 1], or None if it cannot be read: words, ranges, NaN, values outside ("300 %", "7").

    A percent sign divides by 100, and "9/10" and "9 out of 10" are fractions. Values above 10 up to 100 are percentages
    without a sign: 85 does not mean certainty. Decimals may have a comma.
    """
    match = CONFIDENCE.fullmatch((stated or "").strip())
    value = float(match[1].replace(",", ".")) if match else math.inf
    scale = int(match[3]) if match and match[3] else 100 if match and (match[2] or 10 < value <= 100) else 1
    return value / scale if 0 <= value <= scale else None


def recalibrated(p: float) -> float:
    """Return the weight of a vote with stated confidence `p`, clamped to [0, 1] (ReConcile, section 3)."""
    assert not math.isnan(p), "an unreadable confidence is None, not NaN"
    weights = ((1.0, 1.0), (0.9, 0.8), (0.8, 0.5))
    return next((weight for least, weight in weights if p >= least), 0.3 if p > 0.6 else 0.1)
