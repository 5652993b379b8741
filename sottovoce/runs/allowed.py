"""Command-line options that allow what a run folder or an experiment file names: programs, paths and servers.

The folder or file itself decides nothing: it may be from somebody else (docs/howto/trust.md). Nothing here imports
torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self, TypeVar

from pydantic import ConfigDict, Field, model_validator

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError
from sottovoce.core.files import RUN
from sottovoce.core.trust import marked, named
from sottovoce.core.validation import Checked, shown
from sottovoce.nodes.settings import Settings

AnySettings = TypeVar("AnySettings", bound=Settings)
OF_SANDBOX = ("sandbox", "unsafe")
DONOR = "probe_from"
TRUST_HELP = "Open the models, files, folders and servers, and import the Python names, that the run or file names."
TRUST_PATHS: Untyped = Field(default=False, description=TRUST_HELP)


class Trust(Checked):
    """The permissions to run and open what a run or a file names."""

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
            raise UsageError("--unsafe belongs to a sandbox, and none was named; add --sandbox isolated, or drop it")
        return self

    def lacking(self, settings: Settings, subject: str, folder: Path | None = None) -> str:
        """Return one line about the first option that the command line must add; empty if none is missing.

        `subject` names the run or the row. Files in `folder` may be opened, and a probe may hear the runs in it.
        """
        return self.closed(settings, subject, folder) or self.uncontained(settings, subject)

    def closed(self, settings: Settings, subject: str, folder: Path | None = None) -> str:
        """Return one line about the first path or server that must not be opened. See `lacking`."""
        marks = marked(type(settings))
        for name, value in named(settings) if not self.trust_paths else ():
            if marks[name].opens and not _is_known(name, value, settings, folder):
                named_value = f"{subject} names the {marks[name].kind} {shown(value)}"
                return f"{named_value}, which is not opened for it; add --trust-paths if you trust who made it"
        return ""

    def uncontained(self, settings: Settings, subject: str) -> str:
        """Return one line if programs would run without a sandbox that this command line chose. See `lacking`."""
        used = getattr(settings, OF_SANDBOX[0], None)
        if used is None or self.sandbox is not None:
            return ""
        unsafe = " with --unsafe" if getattr(settings, OF_SANDBOX[1]) else ""
        sentence = f"{subject} names the sandbox {shown(used)}{unsafe} for programs of its models"
        return f"{sentence}, and only this command line may choose one; add --sandbox isolated"

    def check(self, settings: Settings, subject: str, folder: Path | None = None) -> None:
        """Check that the command line allows all that the settings name. Errors: see `lacking`."""
        _refuse(self.lacking(settings, subject, folder))

    def check_paths(self, settings: Settings, subject: str, folder: Path | None = None) -> None:
        """Check that the command line allows the paths and servers of the settings. Errors: see `lacking`."""
        _refuse(self.closed(settings, subject, folder))

    def applied(self, settings: AnySettings) -> AnySettings:
        """Return the settings with the sandbox of this command line."""
        return contained(settings, self)


def contained(settings: AnySettings, like: Trust | Settings) -> AnySettings:
    """Return the settings with the sandbox of `like`, if their scheme runs programs."""
    if OF_SANDBOX[0] not in type(settings).model_fields:
        return settings
    return settings.model_copy(update={name: getattr(like, name) for name in OF_SANDBOX})


def _refuse(line: str) -> None:
    if line:
        raise UsageError(line)


NO_TRUST = Trust()
"""None of these options."""


def _is_known(name: str, value: object, settings: Settings, folder: Path | None) -> bool:
    """Return whether a value ships with the project, is pinned, or lies in a folder that is read anyway."""
    if not isinstance(value, str):
        return False
    if marked(type(settings))[name].is_shipped(value):
        return True
    if name == "model":
        from sottovoce.models.sources.catalogue import CATALOGUE  # late: its package imports torch

        if value in CATALOGUE:
            return True
    if folder is None:
        return False
    if name == DONOR:  # a run next to this one
        donor = folder / value
        return Path(value).name == value and lies_in(folder, donor) and (donor / RUN).is_file()
    return Path(value).is_absolute() and lies_in(folder, Path(value))


def lies_in(folder: Path, path: Path) -> bool:
    """Return whether a path, with all its contents, lies in a folder: no link leads out of it."""
    try:
        root, inside = folder.resolve(), path.rglob("*") if path.is_dir() else ()
        return all(each.resolve().is_relative_to(root) for each in (path, *inside))
    except (OSError, RuntimeError):  # Python 3.11 raises the latter for links in a loop
        return False
