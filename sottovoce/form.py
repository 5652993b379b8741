"""The form that a reply must have: known to agents, prompts and engine alike, and so without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.errors import UsageError


@dataclass(frozen=True)
class Form:
    """The form that a reply must have: one of a JSON schema, a list of choices, and a pattern.

    Local decoding obeys it in a later version: today it is told in the prompt and read from the
    reply, not enforced.

    >>> Form(choices=("yes", "no")).choices
    ('yes', 'no')
    """

    schema: Mapping[str, Any] | None = None  # Any: JSON schema, as the field has it
    """The reply is JSON that this schema accepts."""
    choices: tuple[str, ...] = ()
    """The reply is one of these texts."""
    pattern: str | None = None
    """The whole reply matches this regular expression."""

    def __post_init__(self) -> None:
        """Refuse none and several.

        Raises:
            UsageError: not exactly one of the three is given.
        """
        given = {"schema": self.schema is not None, "choices": bool(self.choices), "pattern": self.pattern is not None}
        if sum(given.values()) != 1:
            found = " and ".join(name for name, there in given.items() if there) or "none of them"
            raise UsageError(f"a form has {found}; expected exactly one of schema, choices and pattern")
