"""Permissions to open names in somebody else's settings: a model, a file, a folder or a server.

A field that names something to run, read, load or connect to is annotated with `Names`, any other field that takes free
text with `Words`; a test checks the settings of all schemes. `Allowed` decides for clients of a graph, which send names
in their context or state. `Trust` decides for a run folder or an experiment file, which may be from somebody else.
docs/howto/trust.md has the full table. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sottovoce.core.any_types import JSON, JSONValue, Untyped
from sottovoce.core.errors import RequestError, UsageError, nearest
from sottovoce.core.validation import Checked, shown

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
    pinned: Callable[[], Collection[str]] = tuple
    """Returns the names whose files have known digests: a run folder may use them, a client may not."""
    sibling: str = ""
    """The file that a folder next to a run must have if a value is that folder's name; empty if it is no such name."""

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


def refused(
    settings: BaseModel, allows: Callable[[str, JSONValue, Names], bool]
) -> tuple[str, JSONValue, Names] | None:
    """Return the first name in settings that is neither bundled nor allowed: field, value and mark."""
    for name, value in named(settings):
        mark = marked(type(settings))[name]
        if not (isinstance(value, str) and mark.is_shipped(value)) and not allows(name, value, mark):
            return name, value, mark
    return None


# Clients of a graph


@dataclass(frozen=True)
class Allowed:
    """The names that a run's context or state may use, in addition to bundled names and its graph's names."""

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
        if settings == built:
            return
        known = named(built)

        def allows(name: str, value: JSONValue, mark: Names) -> bool:
            return (name, value) in known or (isinstance(value, str) and value in self.names.get(name, {}))

        if (found := refused(settings, allows)) is not None:
            name, value, mark = found
            if not (offered := sorted({*self.names.get(name, {}), *mark.ships})):
                raise RequestError(f"{name} is {shown(value)}, and clients here cannot choose a {mark.kind}; {WHERE}")
            raise RequestError(f"unknown {mark.kind} {shown(value)}; this graph offers: {', '.join(offered)}; {WHERE}")
        before: Mapping[str, Any] = getattr(built, OPTION, {})
        for name, value in getattr(settings, OPTION, {}).items():
            if _own(name) not in type(settings).model_fields and not _is_plain(value) and before.get(name) != value:
                raise RequestError(f"option {shown(name)} is {shown(value)}; expected a number or a switch; {WHERE}")

    def resolved(self, settings: Model) -> Model:
        """Return settings with a client's names replaced by their values."""
        if not self.names:
            return settings
        changed: JSON = {}
        for name, values in self.names.items():
            current = getattr(settings, name)
            if isinstance(current, list):
                changed[name] = [values.get(item, item) for item in current]
            elif isinstance(current, str):
                changed[name] = values.get(current, current)
        option: Mapping[str, Any] = getattr(settings, OPTION, {})
        if any(_own(name) in self.names for name in option):
            own = {name: self.names.get(_own(name), {}) for name in option}
            changed[OPTION] = {
                name: own[name].get(value, value) if isinstance(value, str) else value for name, value in option.items()
            }
        return settings.model_copy(update=changed) if changed else settings


def _listed(value: JSONValue) -> list[JSONValue]:
    return [*value] if isinstance(value, (list, tuple)) else [] if value in (None, "") else [value]


def _own(name: str) -> str:
    return name.rpartition(".")[2]


def _is_plain(value: JSONValue) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float))


# Run folders and experiment files


OF_SANDBOX = ("sandbox", "unsafe")
TRUST_HELP = "Open the models, files, folders and servers, and import the Python names, that the run or file names."
TRUST_PATHS: Untyped = Field(default=False, description=TRUST_HELP)


class Trust(Checked):
    """The permissions to run and open the names in a run or a file."""

    model_config = ConfigDict(title="Trust")

    sandbox: str | None = Field(
        default=None,
        description="Sandbox in which programs of models run, as for `codegen`; the run's own choice is not used.",
    )
    unsafe: bool = Field(default=False, description="Run programs even without isolation, under resource limits alone.")
    trust_paths: bool = TRUST_PATHS

    @model_validator(mode="after")
    def _of_a_sandbox(self) -> Self:
        if self.unsafe and self.sandbox is None:
            raise UsageError("`unsafe=` needs a sandbox, but no sandbox is set; add `sandbox='isolated'`, or drop it")
        return self

    def lacking(self, settings: BaseModel, subject: str, folder: Path | None = None) -> str:
        """Return one line about the first option that the command line must add; empty if none is missing.

        `subject` names the run or the row. Files in `folder` may be opened, and a probe may hear the runs in it.
        """
        return self.closed(settings, subject, folder) or self.uncontained(settings, subject)

    def closed(self, settings: BaseModel, subject: str, folder: Path | None = None) -> str:
        """Return one line about the first path or server that must not be opened. See `lacking`."""
        found = refused(settings, lambda name, value, mark: self._opens(value, mark, folder))
        if found is None:
            return ""
        named_value = f"{subject} names the {found[2].kind} {shown(found[1])}"
        return f"{named_value}, which is not opened for it; add `trust_paths=True` if you trust who made it"

    def _opens(self, value: JSONValue, mark: Names, folder: Path | None) -> bool:
        """Return whether a value opens nothing, is trusted or pinned, or is in a folder that is read anyway."""
        if self.trust_paths or not mark.opens:
            return True
        if not isinstance(value, str):
            return False
        if value in mark.pinned() or folder is None:
            return value in mark.pinned()
        if mark.sibling:
            donor = folder / value
            return Path(value).name == value and lies_in(folder, donor) and (donor / mark.sibling).is_file()
        return Path(value).is_absolute() and lies_in(folder, Path(value))

    def uncontained(self, settings: BaseModel, subject: str) -> str:
        """Return one line if programs would run without a sandbox that this command line chose. See `lacking`."""
        used = getattr(settings, OF_SANDBOX[0], None)
        if used is None or self.sandbox is not None:
            return ""
        unsafe = " with `unsafe=True`" if getattr(settings, OF_SANDBOX[1]) else ""
        sentence = f"{subject} names the sandbox {shown(used)}{unsafe} for programs of its models"
        return f"{sentence}, and only this command line may choose one; add `sandbox='isolated'`"

    def check(self, settings: BaseModel, subject: str, folder: Path | None = None) -> None:
        """Check that the command line allows all names in the settings. Errors: see `lacking`."""
        if line := self.lacking(settings, subject, folder):
            raise UsageError(line)

    def check_paths(self, settings: BaseModel, subject: str, folder: Path | None = None) -> None:
        """Check that the command line allows the paths and servers of the settings. Errors: see `lacking`."""
        if line := self.closed(settings, subject, folder):
            raise UsageError(line)

    def applied(self, settings: Model) -> Model:
        """Return the settings with the sandbox of this command line."""
        return contained(settings, self)


def contained(settings: Model, like: Trust | BaseModel) -> Model:
    """Return the settings with the sandbox of `like`, if their scheme runs programs."""
    if OF_SANDBOX[0] not in type(settings).model_fields:
        return settings
    return settings.model_copy(update={name: getattr(like, name) for name in OF_SANDBOX})


NO_TRUST = Trust()
"""None of these options."""


def needed(settings: BaseModel, folder: Path) -> list[str]:
    """Return the options that allow the names in settings, for a run in this folder with its own command line."""
    sandbox, unsafe = (getattr(settings, name, None) for name in OF_SANDBOX)
    chosen = ["--sandbox", sandbox, *(["--unsafe"] if unsafe else [])] if sandbox else []
    return [*chosen, *(["--trust-paths"] if NO_TRUST.closed(settings, "", folder) else [])]


def lies_in(folder: Path, path: Path) -> bool:
    """Return whether a path with all its contents is in a folder, so that no link leads out of it."""
    try:
        root, inside = folder.resolve(), path.rglob("*") if path.is_dir() else ()
        return all(each.resolve().is_relative_to(root) for each in (path, *inside))
    except (OSError, RuntimeError):  # Python 3.11 raises the latter for links in a loop
        return False
