"""Conditions on the fields of a row: subject=algebra, split!=train, level<=3."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.errors import UsageError, choose

Fields = Mapping[str, Any]  # Any: JSON
WRITTEN = re.compile(r"\s*([^=<>!]*[^=<>!\s])\s*(!=|<=|>=|==?|<|>)\s*(.*?)\s*", re.DOTALL)
ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """One field, held against one value."""

    field: str
    sign: str
    value: str

    def holds(self, fields: Fields) -> bool:
        """Whether a row meets it; one that lacks the field meets != alone.

        Raises:
            UsageError: an order is asked for, and what is there is no number.
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
    """A condition as it is typed.

    Raises:
        UsageError: it is none, or compares with < or > what is no number.
    """
    if not (found := WRITTEN.fullmatch(written)):
        raise UsageError(f"--where is {written!r}; expected FIELD=VALUE, FIELD!=VALUE, or for numbers < <= > >=")
    condition = Condition(found[1], "=" if found[2] == "==" else found[2], found[3])
    if condition.sign in ORDERS and _number(condition.value) is None:
        raise UsageError(f"--where is {written!r}; expected a number after {condition.sign}")
    return condition


def read_conditions(where: Sequence[str], known: Sequence[str]) -> list[Condition]:
    """Conditions on the fields that there are.

    Raises:
        UsageError: a condition is none, or is on another field.
    """
    conditions = [read_condition(written) for written in where]
    for condition in conditions:
        if condition.field not in known:
            raise UsageError(f"{choose('field', condition.field, list(known))} (--where {str(condition)!r})")
    return conditions


def _equal(found: Any, value: str) -> bool:  # Any: JSON
    """Texts are equal letter by letter; a number of JSON is equal to all its spellings."""
    if isinstance(found, str):
        return found == value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return json.dumps(found, ensure_ascii=False) == value
    return _number(value) == found


def _number(found: Any) -> float | None:  # Any: JSON
    """A finite number, or the text of one; None for anything else."""
    if isinstance(found, bool) or not isinstance(found, (int, float, str)):
        return None
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
