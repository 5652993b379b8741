"""Columns of a row as fields of a question: what they are called, what stands in a cell, and the row's own name."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Collection
from typing import Any, cast, get_type_hints

from sottovoce.errors import UsageError
from sottovoce.evaluation.runs.rows import Values, json_of
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
"""What data sets often call a field of ours: were it taken for another column, an answer would count for nothing."""
UNASKED = {"id", "kind", "target", "aliases", "printed_target", "solution", "decoys", "gold_passages"}
"""What may change while a row asks the same."""
TRUTH = {"true": "yes", "false": "no"}


def check_names(names: Collection[str]) -> None:
    """Refuse a name that can only be meant for a field of ours, where that field is absent.

    Raises:
        UsageError: such a name, or no question.
    """
    for name in names:
        meant = _meant(name)
        if name not in KNOWN and meant and meant not in names:
            raise UsageError(f"unknown field {name!r}; did you mean {meant!r}? Another column needs another name")
    if "question" not in names:
        raise UsageError(f"found no 'question' among {', '.join(map(repr, names)) or 'no fields'}; expected one")


def question_from(values: Values, common: Values, *, cells: bool) -> tuple[Question, Values]:
    """A row's question, with `common` where it lacks a field, and its other columns; `cells` are texts of CSV.

    Raises:
        UsageError: a cell that should be JSON is none, or a text cannot be written as UTF-8.
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
        asked["target"] = _target(asked["target"], asked["kind"])
    for name in ("choices", "aliases"):
        if isinstance(asked.get(name), list):
            asked[name] = [_text(each) for each in asked[name]]
    return cast(Question, asked), {name: value for name, value in values.items() if name not in KNOWN}


def named(question: Question) -> str:
    """The id of a row that has none, made of all that it asks.

    Of a bare text it is `question_id`; two rows may ask one text with other choices or documents.
    """
    asked = {name: value for name, value in question.items() if name not in UNASKED and value}
    if set(asked) == {"question"}:
        return question_id({"question": question["question"]})
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


def _meant(name: str) -> str | None:
    """The field that a name is near to, or that others call so."""
    lower = name.lower()
    near = difflib.get_close_matches(lower, [*KNOWN, *ELSEWHERE], n=1, cutoff=ALIKE)
    return ELSEWHERE.get(near[0], near[0]) if near else None


def _check_text(values: Values) -> None:
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"found a character that is no text: {error.object[error.start]!r}") from error


def _cell(name: str, text: str) -> Any:  # Any: a list, a mapping or a text
    """What a cell holds: JSON, texts with | between them, or the text itself."""
    by_name = name in (*BY_AGENT, "gold_passages")
    begins = "[{" if by_name else "[" if name in LISTS else ""  # choices may be sets: {1}|{2}
    if text[0] in begins:
        return json_of(text, f"{name} ({text})")
    return [part.strip() for part in text.split("|")] if name in LISTS else text


def _text(value: Any) -> Any:  # Any: JSON; what is neither number nor truth value is the question's to check
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


def _target(value: Any, kind: str) -> Any:  # Any: see _text
    """Return a target as text: 42 as "42"; for a yes or no, true as "yes"."""
    return _truth(value) if kind == "yes_no" else _text(value)


def _truth(value: Any) -> Any:  # Any: see _text
    """Return a value as text, true as "yes" and false as "no"."""
    text = _text(value)
    return TRUTH.get(text.strip().lower(), text) if isinstance(text, str) else text
