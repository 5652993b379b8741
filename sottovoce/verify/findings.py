"""Findings of a verification: what differs from what it must be, and notes on what could not be checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sottovoce.channels.message import Message, Place
from sottovoce.runs.run import Key

Where = tuple[str, ...]
"""The discussion, then the place of a message in it; () is the run as a whole."""


@dataclass(frozen=True)
class Finding:
    """A value that contradicts the rest of the run."""

    subject: str
    actual: Any  # Any: whatever is compared, as for `expected`
    expected: Any
    where: Where = ()

    def __str__(self) -> str:
        place = ", ".join(self.where) or "the run"
        return f"{place}: {self.subject}: found {shown(self.actual)}, expected {shown(self.expected)}"


@dataclass
class Verification:
    """The findings of a verification, with notes and counts."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Remarks for the reader that are no reason to doubt the run."""
    discussions: int = 0
    messages: int = 0
    reruns: int = 0
    """Number of discussions that were re-run."""

    def note(self, text: str) -> None:
        """Add a note unless it is there."""
        if text not in self.notes:
            self.notes.append(text)


def of(key: Key) -> Where:
    """Return the place of a discussion, in words."""
    return (f"question {key[0]}, seed {key[1]}",)


def at(key: Key, place: Place | Message) -> Where:
    """Return the place of a message, in words."""
    place = place.place if isinstance(place, Message) else place
    epoch = f", epoch {place.epoch + 1}" if place.epoch else ""
    attempt = f", attempt {place.attempt + 1}" if place.attempt else ""
    return (*of(key), f"{place.agent}, round {place.round + 1}{epoch}, {place.act}{attempt}")


def differences(actual: Any, expected: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:  # Any: plain JSON
    """Yield where two JSON values differ: the field's path and both values; None if one does not have the field."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in sorted(actual.keys() | expected.keys()):
            yield from differences(actual.get(key), expected.get(key), f"{name}.{key}" if name else str(key))
    elif isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            yield from differences(*pair, f"{name}[{i}]")
    elif actual != expected:
        yield name, actual, expected


def shown(value: Any) -> str:  # Any: as above
    """Return a value on one line; a long one is cut after 100 characters."""
    text = value if isinstance(value, str) and value.isalnum() else repr(value)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"
