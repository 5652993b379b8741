"""Extensible registries by name: schemes, protocols, answer kinds, monitors.

Our own entries are dotted paths, so that listing the names imports nothing. Other packages register an
object when they are imported, or declare it as an entry point of the registry's group. Entry points are
read when an unknown name is looked up, or when all names are listed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from sottovoce.core.errors import NotInstalled, UsageError, nearest

Thing = TypeVar("Thing")


class Registry(Generic[Thing]):
    """A mapping from names to objects of one kind.

    >>> registry = Registry[str]("greeting", "sottovoce.greetings")
    >>> registry.register("hello", "Hello!")
    >>> registry["hello"], registry.names()
    ('Hello!', ['hello'])
    """

    def __init__(self, kind: str, group: str, ours: Mapping[str, str] | None = None) -> None:
        """Set the kind for error messages, the entry-point group, and `ours`: "module:attribute" by name."""
        self.kind, self.group = kind, group
        self._paths = dict(ours or {})
        self._known: dict[str, Thing] = {}

    def register(self, name: str, thing: Thing) -> None:
        """Register an object under a name; a UsageError if another object has that name."""
        if name in self._paths or self._known.get(name, thing) is not thing:
            raise UsageError(f"{self.kind} {name!r} exists already; choose another name")
        self._known[name] = thing

    def names(self) -> list[str]:
        """Return all names: our own in their order, then registered ones, then entry points."""
        return list(dict.fromkeys([*self._paths, *self._known, *self._entries()]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self._paths or name in self._known or name in self._entries()

    def __getitem__(self, name: str) -> Thing:
        """Return the object of a name, and import it if necessary.

        Raises:
            NotInstalled: the name is unknown, or the package that provides it cannot be imported.
        """
        if name in self._known:
            return self._known[name]
        if name in self._paths:
            module, attribute = self._paths[name].split(":")
            return self._known.setdefault(name, cast(Thing, getattr(import_module(module), attribute)))
        if (entry := self._entries().get(name)) is None:
            raise NotInstalled(nearest(self.kind, name, self.names()), f"{self.kind} {name!r}")
        try:
            return self._known.setdefault(name, cast(Thing, entry.load()))
        except Exception as error:  # another package's import may raise anything
            why = str(error) if isinstance(error, (ImportError, AttributeError)) else f"{type(error).__name__}: {error}"
            missing = f"{self.kind} {name!r}"
            raise NotInstalled(f"{missing} of {entry.value!r} cannot be imported: {why}", missing) from error

    def module(self, name: str) -> str:
        """Return the module that an object is imported from; "" for one that was registered in code."""
        if name in self._paths:
            return self._paths[name].partition(":")[0]
        return entry.module if (entry := self._entries().get(name)) else ""

    def summary(self, name: str) -> str:
        """Return in one line the summary of the package that provides an entry point; imports nothing of it."""
        entry = self._entries().get(name)
        if entry is None or entry.dist is None:
            return ""
        package, metadata = entry.dist.name, entry.dist.metadata
        summary = metadata["Summary"].strip() if "Summary" in metadata else ""
        return f"{summary.rstrip('.')} (package {package})." if summary else f"From the package {package}."

    def package(self, name: str) -> str:
        """Return name and version of the package that provides an entry point; "" for what is ours or registered."""
        entry = None if name in self._paths else self._entries().get(name)
        return f"{entry.dist.name} {entry.dist.version}" if entry and entry.dist else ""

    def _entries(self) -> dict[str, EntryPoint]:
        return _installed(self.group, tuple(sys.path))


@cache
def _installed(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; cached, since every option asks and a scan reads all packages."""
    return {entry.name: entry for entry in entry_points(group=group)}
