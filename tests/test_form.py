"""The form of a reply is one of three, and knows no torch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from sottovoce.errors import UsageError
from sottovoce.form import Form


@pytest.mark.parametrize("given", [{"schema": {"type": "object"}}, {"choices": ("A", "B")}, {"pattern": "[0-9]+"}])
def test_a_form_is_a_schema_or_choices_or_a_pattern(given: dict[str, Any]) -> None:
    form = Form(**given)

    assert {name: getattr(form, name) for name in given} == given


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "a form has none of them; expected exactly one of schema, choices and pattern"),
        ({"choices": ()}, "a form has none of them"),
        ({"schema": {}, "pattern": "a"}, "a form has schema and pattern; expected exactly one"),
    ],
)
def test_none_and_several_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Form(**given)


def test_a_form_loads_no_torch() -> None:
    code = "import sys, sottovoce.form; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
