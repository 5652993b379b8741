"""The default place of runs, for those without a directory of their own: one directory a run, the oldest removed.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.core.errors import RecordError, UsageError, command
from sottovoce.runs.log import LOG, in_use, last_line

if TYPE_CHECKING:
    from sottovoce.runs.run import Key

MAX_RUNS = 200
"""Largest number of runs; the oldest are removed when another starts."""
MAX_BYTES = 10 << 30
"""Largest size of all their payloads, in bytes, as their logs state it; the newest run stays whatever its size."""


def runs_folder() -> Path:
    """Return `$SOTTOVOCE_RUNS`, or `sottovoce/runs` in the user's state directory (XDG)."""
    if chosen := os.environ.get("SOTTOVOCE_RUNS"):
        return Path(chosen)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sottovoce" / "runs"


def saved_runs() -> list[Path]:
    """Return the directories of all runs there, oldest first."""
    return sorted(log.parent for log in runs_folder().glob(f"*/{LOG}"))


def new_folder(scheme: str) -> Path:
    """Return a new directory for a run that starts now, named by time and scheme, so that names sort by time."""
    now = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    names = [f"{now}-{scheme}", *(f"{now}-{scheme}-{n}" for n in range(2, 10_000))]
    return next(folder for folder in map(runs_folder().joinpath, names) if not folder.exists())


def find_run(name: str, *, over: bool = True) -> Path:
    """Return the directory of a run: by its path, by its name or the beginning of its name, or by `latest`.

    `latest` leaves out runs that are over, or in use, unless `over`.

    Raises:
        RecordError: there is no such run, or several names begin with this one.
    """
    for folder in (Path(name), runs_folder() / name):  # the latter may also be a row of an experiment
        if (folder / LOG).exists():
            return folder
    folders = saved_runs()
    starts = dict.fromkeys((Path(name), runs_folder() / name))  # the same one for an absolute path
    if rows := [log.parent for start in starts for log in sorted(start.glob(f"*/{LOG}"))]:
        names = ", ".join(repr(row.name) for row in rows)
        raise RecordError(f"{name!r} is not a run but contains some: {names}; name one of them: {str(rows[0])!r}")
    if name == "latest" and folders:
        for folder in reversed(folders):
            if over or (last_line(folder).get("line") != "done" and not in_use(folder)):
                return folder
        raise RecordError(f"no run in {str(runs_folder())!r} can be resumed: each is over or in use; name a folder")
    matches = [folder for folder in folders if folder.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    why = f"{len(matches)} runs begin with it" if matches else "there is no such run, nor a folder that contains one"
    raise RecordError(f"unknown run {name!r}: {why}; see {command('runs', 'list')}, or give a folder")


def run_name(folder: Path) -> str:
    """Return the name by which `find_run` finds a run."""
    return folder.name if folder.parent == runs_folder() else str(folder)


def _nbytes(folder: Path) -> int:
    """Return the size of a run's payloads in bytes; 0 if its log does not state it."""
    told = last_line(folder).get("nbytes", 0)
    return told if isinstance(told, int) and told >= 0 else 0


def prune(max_runs: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> list[Path]:
    """Remove all but the newest `max_runs` runs within `max_bytes` bytes, and those in use; return the removed ones."""
    folders = saved_runs()
    taken = accumulate(_nbytes(folder) for folder in reversed(folders))
    newest = [folder for folder, nbytes in zip(reversed(folders), taken, strict=True) if nbytes <= max_bytes][:max_runs]
    stay = {*newest, *folders[-1:]} if max_runs else set()
    removed = [folder for folder in folders if folder not in stay and not in_use(folder)]
    for folder in removed:
        shutil.rmtree(folder, ignore_errors=True)
    return removed


def remove(folders: Sequence[Path]) -> None:
    """Remove these runs, all or none.

    Raises:
        UsageError: one of them is not in the default place, or a process uses it.
    """
    for folder in folders:
        if folder.parent != runs_folder():
            raise UsageError(f"run {str(folder)!r} is not in {str(runs_folder())!r}; delete its folder yourself")
        if in_use(folder):
            raise UsageError(f"run {folder.name!r} is in use by another process; wait until that ends")
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


JUDGED = "judged"
"""The judge directory, in the run's directory; it is a run of its own."""
VERDICT_ID = re.compile(r"-?\d{1,16}:")
"""The beginning of a question's id in a judge's run: the seed of the discussion whose answer is judged."""


def verdict_id(key: Key) -> str:
    """Return the id of the question that asks a judge whether a discussion's answer is right.

    >>> judged_discussion(verdict_id(("a:b", 3)))
    ('a:b', 3)
    """
    return f"{key[1]}:{key[0]}"


def judged_discussion(name: str) -> Key:
    """Return the discussion that a verdict is about."""
    seed, _, question = name.partition(":")
    return question, int(seed)
