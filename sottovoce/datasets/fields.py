"""Fields of a question in a row of a question file: under their own names, or in the columns that the user named."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast, get_type_hints

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError, nearest
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
Columns = Mapping[str, str]
"""The columns that a user named, by the field that each contains."""
NEXT_FIELD = re.compile(r",(?=\s*\w+=)")
"""The comma between two fields of one option; a column's name may contain commas too."""


def columns_of(value: JSONValue) -> JSONValue:
    """Return the columns by field: from a mapping, or from texts such as "question=prompt,target=gold".

    Raises:
        UsageError: a text is not of this form, or a field is unknown.
    """
    if isinstance(value, Mapping):
        return {_field(str(name)): str(column) for name, column in value.items()}
    found = dict[str, str]()
    for text in [value] if isinstance(value, str) else value:
        for part in NEXT_FIELD.split(str(text)):
            name, _, column = map(str.strip, part.partition("="))
            if not name or not column:
                raise UsageError(f"`columns=` is {text!r}; expected FIELD=COLUMN, such as question=prompt,target=gold")
            found[_field(name)] = column
    return found


def _field(name: str) -> str:
    if name not in KNOWN:
        raise UsageError(nearest("field of a question", name, KNOWN))
    return name


def with_fields(names: Sequence[str], columns: Columns) -> list[str]:
    """Return the names of columns after the user's have become fields; a field's own column is then not read."""
    own = [name for name in names if name not in columns and name not in columns.values()]
    return [*(field for field, column in columns.items() if column in names), *own]


def check_names(names: Collection[str], columns: Columns | None = None) -> None:
    """Check that no name is a misspelling or another data set's name of a field, and that there is a question.

    If the user named `columns`, only misspellings are refused: `answer` may then have any meaning.

    Raises:
        UsageError: a name stands for a field that is absent, or there is no question. It ends with the whole option
            that names the columns.
    """
    known, meant = [*KNOWN, *({} if columns else ELSEWHERE)], dict[str, str]()
    for name in names:
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=ALIKE)
        field = ELSEWHERE.get(near[0], near[0]) if near else name
        if name not in KNOWN and near and field not in names:
            meant.setdefault(field, name)
    for field, name in meant.items():
        option = column_option({**(columns or {}), **meant})
        raise UsageError(f"unknown field {name!r}; did you mean {field!r}? Add {option}; if not, rename the column")
    if "question" not in names:
        option = column_option({"question": "COLUMN"})
        found = ", ".join(map(repr, names)) or "no fields"
        raise UsageError(f"found no 'question' among {found}; expected one: name its column with {option}")


def column_option(columns: Columns) -> str:
    """Return the option that names these columns, as a shell takes it."""
    return shlex.join(["--column", ",".join(f"{field}={column}" for field, column in columns.items())])


def renamed(values: Values, columns: Columns) -> Values:
    """Return a row with its fields in place of the user's columns."""
    sources = {name: name for name in values} | dict(columns)
    return {name: values[sources[name]] for name in with_fields([*values], columns)}


def question_from(values: Values, common: Values, *, cells: bool) -> tuple[Question, Values]:
    """Return a row's question and its other columns; `common` fills missing fields. `cells`: values are CSV texts.

    Raises:
        UsageError: a cell that should be JSON is not, or a text cannot be encoded as UTF-8.
    """
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"found {error.object[error.start]!r}, which cannot be encoded as UTF-8") from error
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
    """Return an id for a row without one: a digest of everything that it asks.

    For a bare text it is `question_id`. Two rows may ask the same text with other choices or documents.
    """
    asked = {name: value for name, value in question.items() if name not in UNASKED and value}
    if set(asked) == {"question"}:
        return question_id({"question": question["question"]})
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


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
