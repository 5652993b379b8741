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
        given = [name for name in ("schema", "choices", "pattern") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "nothing"
            raise UsageError(f"the form of a reply was given as {found}; expected one of schema, choices, pattern")

    @classmethod
    def of_object(cls, *names: str) -> Form:
        """A JSON object of texts with these names, in this order."""
        texts = {name: {"type": "string"} for name in names}
        return cls({"type": "object", "properties": texts, "required": list(names), "additionalProperties": False})
