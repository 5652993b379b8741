"""Marks for settings that name something to run, read, load or connect to, and checks of what clients may name.

A field that names such a thing is annotated with `Names`, any other field that takes free text with `Words`; a test
checks the settings of all schemes. `Allowed` checks the names in a graph's context or state. docs/howto/trust.md has
the full table of who may set what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import RequestError, UsageError, nearest
from sottovoce.core.validation import shown

Allow = Mapping[str, Mapping[str, str] | Sequence[str]]
"""By setting: the names that a client may use, each with its value; a list contains the values themselves."""
Model = TypeVar("Model", bound=BaseModel)
OPTION = "option"
"""The setting whose entries are options of a protocol: NAME or AGENT.NAME."""
WHERE = "others are set where the graph is built, or by the server's configuration"


@dataclass(frozen=True)
class Words:
    """The mark of a field of free text that never opens anything."""


@dataclass(frozen=True)
class Names:
    """The mark of a field that names something to run, read, load or connect to, or a resource of the machine."""

    kind: str
    """The word for the named thing in error messages."""
    ships: Sequence[str] = ()
    """The names that any client may use; NAME:NUMBER is allowed for names in `numbered`."""
    numbered: Sequence[str] = ()
    opens: bool = True
    """Whether it opens a file, a folder or a server; False for a resource of the machine."""

    def is_shipped(self, value: str) -> bool:
        """Return whether any client may use this value."""
        name, colon, number = value.partition(":")
        small = len(number) < 6 and number.replace(".", "", 1).isdecimal() and number.isascii()
        return value in self.ships or bool(colon and name in self.numbered and small)


@cache
def marked(kind: type[BaseModel]) -> dict[str, Names]:
    """Return the marked fields of a model of settings, by name."""
    fields = kind.model_fields.items()
    return {name: mark for name, info in fields for mark in info.metadata if isinstance(mark, Names)}


def named(settings: BaseModel) -> list[tuple[str, JSONValue]]:
    """Return the marked fields of settings with their values, one entry for each value; unset ones are left out."""
    fields, marks = type(settings).model_fields, marked(type(settings))
    entries = [(name, item) for name in marks for item in _listed(getattr(settings, name))]
    option: Mapping[str, Any] = getattr(settings, OPTION, {})
    entries += [
        (own, item) for name, value in option.items() if (own := _own(name)) in marks for item in _listed(value)
    ]
    return [(name, item) for name, item in entries if item not in _listed(fields[name].default)]


@dataclass(frozen=True)
class Allowed:
    """The names that a run's context or state may use, in addition to bundled ones and those of its graph."""

    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By setting: each name, and its value."""

    @classmethod
    def of(cls, allow: Allow | None, kind: type[BaseModel]) -> Allowed:
        """Build the allowed names from the `allow` of a graph.

        Raises:
            UsageError: a setting is unknown or takes no names, or its value is neither a list nor a mapping of names.
        """
        by_setting: dict[str, Mapping[str, str]] = {}
        for name, names in (allow or {}).items():
            listed = dict.fromkeys(names) if isinstance(names, Sequence) and not isinstance(names, str) else names
            if not isinstance(listed, Mapping):
                raise UsageError(f"allow has {shown(names)} for {name!r}; expected names, or values by name")
            values = {item: item if value is None else value for item, value in listed.items()}
            if wrong := next((item for pair in values.items() for item in pair if not isinstance(item, str)), None):
                raise UsageError(f"allow has {shown(wrong)} for {name!r}; expected text")
            if name not in marked(kind):
                raise UsageError(f"{nearest('setting that names something:', name, marked(kind))} (of allow)")
            by_setting[name] = values
        return cls(by_setting)

    def check(self, settings: Model, built: Model) -> None:
        """Refuse names of a client that are neither bundled nor allowed; nothing is opened.

        Raises:
            RequestError: a name is not allowed; the message lists what this graph offers.
        """
        known = named(built)
        for name, value in named(settings):
            if (name, value) not in known:
                self._check_one(name, value, marked(type(settings))[name])
        before: Mapping[str, Any] = getattr(built, OPTION, {})
        for name, value in getattr(settings, OPTION, {}).items():
            if _own(name) not in type(settings).model_fields and not _is_plain(value) and before.get(name) != value:
                raise RequestError(f"option {shown(name)} is {shown(value)}; expected a number or a switch; {WHERE}")

    def resolved(self, settings: Model) -> Model:
        """Return settings with a client's names replaced by their values."""
        changed: JSON = {}
        for name, values in self.names.items():
            current = getattr(settings, name)
            if isinstance(current, list):
                changed[name] = [values.get(item, item) for item in current]
            elif isinstance(current, str):
                changed[name] = values.get(current, current)
        option: Mapping[str, Any] = getattr(settings, OPTION, {})
        if any(_own(name) in self.names for name in option):
            changed[OPTION] = {name: self._value(_own(name), value) for name, value in option.items()}
        return settings.model_copy(update=changed) if changed else settings

    def _value(self, name: str, value: JSONValue) -> JSONValue:
        return self.names.get(name, {}).get(value, value) if isinstance(value, str) else value

    def _check_one(self, name: str, value: JSONValue, mark: Names) -> None:
        own = self.names.get(name, {})
        if isinstance(value, str) and (value in own or mark.is_shipped(value)):
            return
        offered = sorted({*own, *mark.ships})
        if not offered:
            raise RequestError(f"{name} is {shown(value)}, and clients here cannot choose a {mark.kind}; {WHERE}")
        raise RequestError(f"unknown {mark.kind} {shown(value)}; this graph offers: {', '.join(offered)}; {WHERE}")


def _listed(value: JSONValue) -> list[JSONValue]:
    return [*value] if isinstance(value, (list, tuple)) else [] if value in (None, "") else [value]


def _own(name: str) -> str:
    return name.rpartition(".")[2]


def _is_plain(value: JSONValue) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float))
