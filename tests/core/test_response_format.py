"""The form of a reply is one of three, and knows no torch."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "a form has none of them; expected exactly one of schema, choices and pattern"),
        ({"choices": ()}, "a form has none of them"),
        ({"schema": {}, "pattern": "a"}, "a form has schema and pattern; expected exactly one"),
        ({"choices": ("a", "")}, "a form has an empty choice; expected at least one character in each"),
        ({"choices": ("a",), "after": "Answer: "}, "a form comes after 'Answer: '; expected words of one line"),
        ({"choices": ("a",), "after": "So\nthen"}, 'expected words of one line, like "Answer:"'),
        ({"choices": ("a",), "one_line": True}, "without after; expected the text before it"),
        ({"choices": ("a",), "forced": False}, "without after; expected the text before it"),
    ],
)
def test_none_and_several_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Form(**given)


TEXT = {"type": "string", "const": "unknown"}


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ({"choices": ("a", "b")}, {"choices": ("a", "b", "unknown")}),
        ({"choices": ("a", "Unknown")}, {"choices": ("a", "Unknown")}),
        ({"pattern": "a|b", "after": "So:"}, {"pattern": "(?:a|b)|unknown", "after": "So:"}),
        ({"schema": {"type": "string"}}, {"schema": {"type": "string"}}),
        ({"schema": {"enum": [1, 2], "type": "integer"}}, {"schema": {"enum": [1, 2, "unknown"]}}),
        ({"schema": {"type": "number"}}, {"schema": {"anyOf": [{"type": "number"}, TEXT]}}),
        (
            {"schema": {"properties": {"a": {"items": {"enum": ["x"]}}}}},
            {"schema": {"properties": {"a": {"items": {"enum": ["x", "unknown"]}}}}},
        ),
    ],
)
def test_every_form_offers_unknown_unless_it_wants_none(given: dict[str, Any], offered: dict[str, Any]) -> None:
    form, closed = Form(**given), Form(**given, unknown=False)
    assert form.offered == Form(**offered, unknown=False) == form.offered.offered
    assert closed.offered is closed


def test_fields_of_an_object_are_texts_or_in_forms_of_their_own() -> None:
    letters, sure = Form(choices=("A", "B")), Form(pattern="0|1", unknown=False)
    form = Form.of_object("why", "answer", "sure", answer=letters, sure=sure, why=None)

    assert form.schema is not None and form.schema["required"] == ["why", "answer", "sure"]
    assert form.schema["properties"] == {
        "why": {"type": "string"},
        "answer": {"type": "string", "enum": ["A", "B", "unknown"]},
        "sure": {"type": "string", "pattern": "^(?:0|1)$"},
    }
    assert form.offered is form


def test_a_form_survives_json() -> None:
    form = Form(choices=("a", "b"), after="So:", one_line=True)
    assert Form(**json.loads(json.dumps(asdict(form)))) == form
