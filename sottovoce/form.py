"""The form that a reply must have, as data: a JSON schema, one of some choices, or a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.errors import UsageError


@dataclass(frozen=True)
class Form:
    """Exactly one of three; acts say it, requests carry it, and who reads a reply holds it against it.

    Raises:
        UsageError: none was given, or several.
    """

    schema: Mapping[str, Any] | None = None  # Any: a JSON schema
    choices: tuple[str, ...] = ()
    """The reply is one of these."""
    pattern: str | None = None
    """A regular expression that the whole reply matches."""

    def __post_init__(self) -> None:
        """Refuse none and several."""
        given = {"schema": self.schema is not None, "choices": bool(self.choices), "pattern": self.pattern is not None}
        found = [name for name, is_given in given.items() if is_given]
        if len(found) != 1:
            has = " and ".join(found) or "none of them"
            raise UsageError(f"a form has {has}; expected exactly one of schema, choices and pattern")

    @classmethod
    def of_object(cls, *names: str) -> Form:
        """A JSON object of texts with these names, in this order."""
        texts = {name: {"type": "string"} for name in names}
        return cls({"type": "object", "properties": texts, "required": list(names), "additionalProperties": False})
