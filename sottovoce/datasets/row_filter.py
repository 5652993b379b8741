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
WRITTEN = re.compile(r"\s*([^=<>!]*[^=<>!\s])\s*(!=|<=|>=|==?|<|>)\s*(.*?)\s*", re.DOTALL)
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
        found = fields.get(self.field)
        if self.sign not in ORDERS:
            return (found is not None and _equal(found, self.value)) == (self.sign == "=")
        if found is None:
            return False
        if (number := _number(found)) is None:
            raise UsageError(f"{self.field} is {found!r}; expected a number, as {self} compares numbers")
        return ORDERS[self.sign](number, float(self.value))

    def __str__(self) -> str:
        return f"{self.field}{self.sign}{self.value}"


def read_condition(written: str) -> Condition:
    """Parse a condition.

    Raises:
        UsageError: it is not a condition, or compares by < or > with something that is not a number.
    """
    if not (found := WRITTEN.fullmatch(written)):
        raise UsageError(f"--where is {written!r}; expected FIELD=VALUE, FIELD!=VALUE, or for numbers < <= > >=")
    condition = Condition(found[1], "=" if found[2] == "==" else found[2], found[3])
    if condition.sign in ORDERS and _number(condition.value) is None:
        raise UsageError(f"--where is {written!r}; expected a number after {condition.sign}")
    return condition


def read_conditions(where: Sequence[str], known: Sequence[str]) -> list[Condition]:
    """Parse conditions on the fields `known`.

    Raises:
        UsageError: one is not a condition, or is on another field.
    """
    conditions = [read_condition(written) for written in where]
    for condition in conditions:
        if condition.field not in known:
            raise UsageError(f"{choose('field', condition.field, list(known))} (--where {str(condition)!r})")
    return conditions


def _equal(found: Any, value: str) -> bool:  # Any: JSON
    """Return whether a field equals a value: texts letter by letter, a JSON number in any spelling."""
    if isinstance(found, str):
        return found == value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return json.dumps(found, ensure_ascii=False) == value
    return _number(value) == found


def _number(found: Any) -> float | None:  # Any: JSON
    """Return the value of a finite number or of its text; None for anything else."""
    if isinstance(found, bool) or not isinstance(found, (int, float, str)):
        return None
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
