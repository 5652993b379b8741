"""Where runs are kept that nobody gave a folder: one folder a run, the oldest ones removed.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import os
import shutil
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from sottovoce.errors import RecordError, command
from sottovoce.evaluation.runs.log import LOG, in_use, last_line

KEPT = 200
"""Runs, of which the oldest go first when another begins."""
ROOM = 10 << 30
"""Bytes of payloads that they may have together, as far as their logs tell; the newest run stays whatever it has."""


def shelf() -> Path:
    """`$SOTTOVOCE_RUNS`, or `sottovoce/runs` in the user's folder for what programs keep."""
    if chosen := os.environ.get("SOTTOVOCE_RUNS"):
        return Path(chosen)
    kept = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(kept) / "sottovoce" / "runs"


def kept() -> list[Path]:
    """The folders of all runs there, oldest first."""
    return sorted(log.parent for log in shelf().glob(f"*/{LOG}"))


def new_folder(scheme: str) -> Path:
    """A folder for a run that begins now, named by time and scheme, so that names stand in order of time."""
    now = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    names = [f"{now}-{scheme}", *(f"{now}-{scheme}-{n}" for n in range(2, 10_000))]
    return next(folder for folder in map(shelf().joinpath, names) if not folder.exists())


def folder_of(name: str) -> Path:
    """The folder of a run: a path, or the name (or its beginning, or `latest`) of one that is kept.

    Raises:
        RecordError: there is no such run, or several names begin so.
    """
    for folder in (Path(name), shelf() / name):  # the latter a row of an experiment, too
        if (folder / LOG).exists():
            return folder
    folders = kept()
    starts = dict.fromkeys((Path(name), shelf() / name))  # a whole path is one and the same
    if rows := [each.parent for start in starts for each in sorted(start.glob(f"*/{LOG}"))]:
        told = ", ".join(repr(row.name) for row in rows)
        raise RecordError(f"{name!r} is no run, but holds some: {told}; name one of them: {str(rows[0])!r}")
    if name == "latest" and folders:
        return folders[-1]
    found = [folder for folder in folders if folder.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    why = f"{len(found)} runs begin so" if found else "there is no such run, nor a folder that holds one"
    raise RecordError(f"unknown run {name!r}: {why}; see {command('runs', 'list')}, or give a folder")


def name_of(folder: Path) -> str:
    """By what `folder_of` finds a run."""
    return folder.name if folder.parent == shelf() else str(folder)


def _nbytes(folder: Path) -> int:
    """Return the bytes of a run's payloads; 0 where its log does not say so."""
    told = last_line(folder).get("nbytes", 0)
    return told if isinstance(told, int) and told >= 0 else 0


def prune(keep: int = KEPT, room: int = ROOM) -> list[Path]:
    """Remove all but the newest `keep` runs, as far as there is `room`; returns them. One that is in use stays."""
    folders = kept()
    taken = accumulate(_nbytes(folder) for folder in reversed(folders))
    newest = [folder for folder, nbytes in zip(reversed(folders), taken, strict=True) if nbytes <= room][:keep]
    stay = {*newest, *folders[-1:]} if keep else set()
    removed = [folder for folder in folders if folder not in stay and not in_use(folder)]
    for folder in removed:
        shutil.rmtree(folder, ignore_errors=True)
    return removed
