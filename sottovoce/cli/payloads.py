"""The command `payloads gc`: remove the payload files of messages that nothing needs.

Nothing here imports torch or langgraph before a command needs it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from sottovoce.cli.command import Commands
from sottovoce.core.text import amount, counted, one_line, say
from sottovoce.core.validation import Checked

if TYPE_CHECKING:
    from sottovoce.runs.payload_stores import Place

commands = Commands("payloads")
HOUR = 3600.0


class GarbageOptions(Checked):
    """The files to delete, and the places of payloads and of the logs and checkpoints that may name them."""

    runs: list[Path] = Field(
        default=[],
        description="Also search these folders, at any depth, for runs of --save; those of `runs list` are included.",
    )
    store: Path | None = Field(
        default=None,
        description="The payload folder of applications (default: $SOTTOVOCE_STORE, or the user's cache).",
    )
    checkpoints: list[str] = Field(
        default=[],
        repr=False,  # may contain a password
        description="Checkpoints of applications: SQLite files, or postgresql://USER@HOST/DB.",
    )
    older_than: float = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="Age in hours; younger files stay, since a process may still be writing them.",
    )
    dry_run: bool = Field(default=False, description="Print what would be removed, and delete nothing.")


@commands.add(GarbageOptions)
def gc(choice: GarbageOptions) -> None:
    """Remove payload files that no run or checkpoint refers to, except recent ones."""
    from sottovoce.runs.payload_stores import places

    before, any_unnamed = time.time() - choice.older_than * HOUR, False
    for place in places(choice.runs, choice.store, choice.checkpoints):
        unnamed = place.unneeded()
        removed = [path for path in unnamed if path.stat().st_mtime < before] if not place.keep_reason else []
        if unnamed:
            any_unnamed = True
            say(one_line(_removal_line(place, unnamed, removed, choice)))
        for path in removed if not choice.dry_run else ():
            path.unlink(missing_ok=True)
    if not any_unnamed:
        say("every payload file is referred to by a log or a checkpoint")


def _removal_line(place: Place, unnamed: list[Path], removed: list[Path], choice: GarbageOptions) -> str:
    if place.keep_reason:
        return f"{place.name}: {counted(len(unnamed), 'file')} without a known name, kept: {place.keep_reason}"
    nbytes, done = sum(path.stat().st_size for path in removed), "would be removed" if choice.dry_run else "removed"
    younger = len(unnamed) - len(removed)
    stay = f"; younger than {choice.older_than:g} h and kept: {counted(younger, 'file')}" if younger else ""
    return f"{place.name}: {counted(len(removed), 'file')}, {amount(nbytes)} {done}{stay}"
