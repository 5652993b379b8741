"""Tables of parameters: a few cases stand for all at every test, the others are slow tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def some(values: Sequence[Any], *fast: object) -> list[Any]:
    """The values of a parameter; all but those that are named are slow."""
    return [_case(each in fast, each) for each in values]


def pairs(rows: Sequence[Any], columns: Sequence[Any], every: int = 4) -> list[Any]:
    """All pairs of two parameters; each row has one in `every` of its columns, in turn, and the others are slow."""
    return [_case((i + j) % every == 0, row, column) for i, row in enumerate(rows) for j, column in enumerate(columns)]


def _case(fast: bool, *values: Any) -> Any:
    return pytest.param(*values, marks=() if fast else pytest.mark.slow)
