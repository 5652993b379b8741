"""One line of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What was looked at and what was found."""

    check: str
    ok: bool | None
    """None where a fact is neither good nor bad."""
    detail: str
    """One line; where something is wrong it ends with what to do."""
