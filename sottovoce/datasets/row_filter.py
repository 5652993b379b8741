"""Filters of rows: conditions on their fields, such as subject=algebra, split!=train, level<=3."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.core.errors import UsageError, choose

Fields = Mapping[str, Any]  # Any: JSON
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

    def holds(self, fields: Fields) -> bool:
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


def read_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        UsageError: it is not a condition, or compares by < or > with something that is not a number.
    """
    if not (match := CONDITION.fullmatch(text)):
        raise UsageError(f"--where is {text!r}; expected FIELD=VALUE, FIELD!=VALUE, or for numbers < <= > >=")
    condition = Condition(match[1], "=" if match[2] == "==" else match[2], match[3])
    if condition.sign in ORDERS and _number(condition.value) is None:
        raise UsageError(f"--where is {text!r}; expected a number after {condition.sign}")
    return condition


def read_conditions(where: Sequence[str], known: Sequence[str]) -> list[Condition]:
    """Parse conditions on the fields `known`.

    Raises:
        UsageError: one is not a condition, or is on another field.
    """
    conditions = [read_condition(text) for text in where]
    for condition in conditions:
        if condition.field not in known:
            raise UsageError(f"{choose('field', condition.field, list(known))} (--where {str(condition)!r})")
    return conditions


def _equal(cell: Any, value: str) -> bool:  # Any: JSON
    """Return whether a field equals a value: texts letter by letter, a JSON number in any spelling."""
    if isinstance(cell, str):
        return cell == value
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return json.dumps(cell, ensure_ascii=False) == value
    return _number(value) == cell


def _number(value: Any) -> float | None:  # Any: JSON
    """Return the value of a finite number or of its text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
