"""The form that a reply is kept to while it is decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.errors import UsageError


@dataclass(frozen=True)
class Form:
    """What a whole reply may be: JSON of a schema, one of several texts, or what a regular expression matches."""

    schema: Mapping[str, Any] | None = None  # Any: a JSON schema
    choices: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError where not exactly one is given."""
        given = [name for name in ("schema", "choices", "pattern") if getattr(self, name) not in (None, ())]
        if len(given) != 1:
            raise UsageError(f"a form has {' and '.join(given) or 'nothing'}; give one of schema, choices, pattern")
