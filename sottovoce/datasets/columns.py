"""Columns of a row: the fields of its question, its id, and conditions that filter rows.

A condition compares one field with one value: subject=algebra, split!=train, level<=3.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError, choose
from sottovoce.datasets.table_reader import Values, json_of
from sottovoce.nodes.question import Question, question_id
from sottovoce.prompts.kinds import kind_of

KNOWN = tuple(get_type_hints(Question))
LISTS = ("choices", "aliases", "decoys", "demonstrations", "hints", "gold_passages")
BY_AGENT = ("documents", "wordings", "starting_views")
ALIKE = 0.81  # of difflib's ratio: qestion, targets and traget are near ours; idx, qid and document_id are columns
ELSEWHERE = {
    "answer": "target", "gold": "target", "label": "target", "options": "choices", "problem": "question",
    "prompt": "question", "context": "documents", "passages": "documents",
}  # fmt: skip
"""Common names of our fields in datasets; taken for other columns, they would silently lose a target."""
UNASKED = {"id", "kind", "target", "aliases", "printed_target", "solution", "decoys", "gold_passages"}
"""Fields that do not change what a row asks."""
TRUTH = {"true": "yes", "false": "no"}


def check_names(names: Collection[str]) -> None:
    """Check that no name is a misspelled or foreign name of a question's field, and that there is a question.

    Raises:
        UsageError: a name stands for a field that is absent, or there is no question.
    """
    for name in names:
        meant = _meant(name)
        if name not in KNOWN and meant and meant not in names:
            raise UsageError(f"unknown field {name!r}; did you mean {meant!r}? If not, rename the column")
    if "question" not in names:
        raise UsageError(f"found no 'question' among {', '.join(map(repr, names)) or 'no fields'}; expected one")


def question_from(values: Values, common: Values, *, cells: bool) -> tuple[Question, Values]:
    """Return a row's question and its other columns; `common` fills missing fields. `cells`: values are CSV texts.

    Raises:
        UsageError: a cell that should be JSON is not, or a text cannot be encoded as UTF-8.
    """
    _check_text(values)
    own = {name: value for name, value in values.items() if name in KNOWN and value is not None}
    if cells:
        own = {name: _cell(name, text) for name, text in own.items()}
    asked = {**common, **own}
    for name in ("id", "solution"):
        if name in asked:
            asked[name] = _text(asked[name])
    if not asked.get("kind"):
        asked["kind"] = kind_of({**asked, "target": _truth(asked.get("target"))})
    if "target" in asked:
        asked["target"] = (_truth if asked["kind"] == "yes_no" else _text)(asked["target"])
    for name in ("choices", "aliases"):
        if isinstance(asked.get(name), list):
            asked[name] = [_text(each) for each in asked[name]]
    return cast(Question, asked), {name: value for name, value in values.items() if name not in KNOWN}


def named(question: Question) -> str:
    """Return the id of a row that has none: a digest of everything that it asks.

    For a bare text it is `question_id`. Two rows may ask the same text with other choices or documents.
    """
    asked = {name: value for name, value in question.items() if name not in UNASKED and value}
    if set(asked) == {"question"}:
        return question_id({"question": question["question"]})
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


def _meant(name: str) -> str | None:
    """Return the field that a name resembles, or that datasets often call so; None if there is none."""
    lower = name.lower()
    near = difflib.get_close_matches(lower, [*KNOWN, *ELSEWHERE], n=1, cutoff=ALIKE)
    return ELSEWHERE.get(near[0], near[0]) if near else None


def _check_text(values: Values) -> None:
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"found {error.object[error.start]!r}, which cannot be encoded as UTF-8") from error


def _cell(name: str, text: str) -> Any:  # Any: a list, a mapping or a text
    """Return the value of a cell: JSON, a list of texts separated by |, or the text itself."""
    by_name = name in (*BY_AGENT, "gold_passages")
    begins = "[{" if by_name else "[" if name in LISTS else ""  # choices may be sets: {1}|{2}
    if text[0] in begins:
        return json_of(text, f"{name} ({text})")
    return [part.strip() for part in text.split("|")] if name in LISTS else text


def _text(value: JSONValue) -> JSONValue:
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


def _truth(value: JSONValue) -> JSONValue:
    """Return a value as text, true as "yes" and false as "no"."""
    text = _text(value)
    return TRUTH.get(text.strip().lower(), text) if isinstance(text, str) else text


Fields = Mapping[str, JSONValue]
CONDITION = re.compile(r"\s*([^=<>!]*[^=<>!\s])\s*(!=|<=|>=|==?|<|>)\s*(.*?)\s*", re.DOTALL)
ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A comparison of one field with one value."""

    field: str
    sign: str
    value: str

    def is_met(self, fields: Fields) -> bool:
        """Return whether a row meets the condition; a row without the field meets only !=.

        Raises:
            UsageError: the condition compares by < or >, but the field is not a number.
        """
        cell = fields.get(self.field)
        if self.sign not in ORDERS:
            return (cell is not None and _equal(cell, self.value)) == (self.sign == "=")
        if cell is None:
            return False
        if (number := _number(cell)) is None:
            raise UsageError(f"{self.field} is {cell!r}; expected a number, as {self} compares numbers")
        return ORDERS[self.sign](number, float(self.value))

    def __str__(self) -> str:
        return f"{self.field}{self.sign}{self.value}"


def read_conditions(where: Sequence[str], known: Sequence[str] | None = None) -> list[Condition]:
    """Parse conditions on the fields `known`; None checks no names.

    Raises:
        UsageError: one is not a condition, is on another field, or compares by < or > with something that is not a
            number.
    """
    conditions = []
    for text in where:
        if not (match := CONDITION.fullmatch(text)):
            raise UsageError(f"--where is {text!r}; expected FIELD=VALUE, FIELD!=VALUE, or for numbers < <= > >=")
        condition = Condition(match[1], "=" if match[2] == "==" else match[2], match[3])
        if condition.sign in ORDERS and _number(condition.value) is None:
            raise UsageError(f"--where is {text!r}; expected a number after {condition.sign}")
        if known is not None and condition.field not in known:
            raise UsageError(f"{choose('field', condition.field, list(known))} (--where {str(condition)!r})")
        conditions.append(condition)
    return conditions


class Enough:
    """Tells when a file has been read far enough for the rows that are asked: a count of those that meet conditions."""

    def __init__(self, where: Sequence[str] = (), rows: int | None = None) -> None:
        """Take the conditions, which are parsed before the file is read, and the count; None reads all rows."""
        self._conditions, self._left = read_conditions(where), rows
        self._unseen = {condition.field for condition in self._conditions}

    def after(self, fields: Fields) -> bool:
        """Return True behind the last row that is needed; a field of a condition must have occurred by then."""
        if self._left is None:
            return False
        self._unseen -= fields.keys()
        with suppress(UsageError):  # it is reported later, with its line
            self._left -= all(condition.is_met(fields) for condition in self._conditions)
        return self._left <= 0 and not self._unseen


def _equal(cell: JSONValue, value: str) -> bool:
    """Return whether a field equals a value: texts letter by letter, a JSON number in any spelling."""
    if isinstance(cell, str):
        return cell == value
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return json.dumps(cell, ensure_ascii=False) == value
    return _number(value) == cell


def _number(value: JSONValue) -> float | None:
    """Return the value of a finite number or of its text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
