"""The command `payloads gc`: remove the payloads of applications that no checkpoint needs.

Nothing here imports torch or langgraph before a command needs it.
"""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import Field

from sottovoce.cli.command import Commands
from sottovoce.core.text import amount, counted, one_line, say
from sottovoce.core.validation import Checked

commands = Commands("payloads")
HOUR = 3600.0


class GarbageOptions(Checked):
    """The folder of payloads, and the checkpoints that may refer to them."""

    store: Path | None = Field(
        default=None,
        description="The payload folder of applications (default: $SOTTOVOCE_STORE, or the user's cache).",
    )
    checkpoints: list[str] = Field(
        default=[],
        repr=False,  # may contain a password
        description="Checkpoints of all applications: SQLite files, or postgresql://USER@HOST/DB.",
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
    """Remove the payloads of applications that none of their checkpoints refers to, except recent ones."""
    from sottovoce.runs.payload_stores import unneeded

    before = time.time() - choice.older_than * HOUR
    root, unnamed = unneeded(choice.store, choice.checkpoints)
    removed = [path for path in unnamed if path.stat().st_mtime < before]
    nbytes, done = sum(path.stat().st_size for path in removed), "would be removed" if choice.dry_run else "removed"
    younger = len(unnamed) - len(removed)
    stay = f"; younger than {choice.older_than:g} h and kept: {counted(younger, 'file')}" if younger else ""
    for path in removed if not choice.dry_run else ():
        path.unlink(missing_ok=True)
    say(one_line(f"{root}: {counted(len(removed), 'file')}, {amount(nbytes)} {done}{stay}"))
