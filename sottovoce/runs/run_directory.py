"""The directories of runs: the log file of each, and the default place of runs without a chosen directory.

Nothing here imports torch or langgraph, or knows the content of a log's lines (see `log`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import RecordError, UsageError, command
from sottovoce.core.files import RUN, bytes_of, check_no_link, missing, opened, remove_made

LOG = RUN
LOCK = "lock"
REPAIR = "restore the log from a copy, or run its questions again"
ALTERED = "lines of the log were lost, doubled or changed"
LONGEST, END = 1 << 28, 4096
"""Largest sizes of a log's lines and of its last line, in bytes."""
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""A surrogate (half of a character), escaped."""
RESUMED = b'{"line":"resumed"}\n'
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Log:
    """The log of a run, open for writing; one process at a time."""

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        """Lock a run's directory and open its log. `new` creates both; otherwise the log is resumed.

        Raises:
            RecordError: another process uses the directory, it cannot be written, or it contains a link.
        """
        self.path, self.new = folder / LOG, new
        self.untouched = not new
        """True for a resumed log that has no line of this process yet."""
        check_no_link(*folder.glob("*"), *folder.glob("*/*"))
        self._lock = FileLock(folder / LOCK)
        self._created = missing(folder / LOCK, self.path)
        try:
            if new:
                folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o644)
        except Timeout as error:
            raise RecordError(f"run {str(folder)!r} is in use by another process; wait for it, or stop it") from error
        except OSError as error:
            self._lock.release()
            remove_made(self._created)
            raise RecordError(f"run {str(folder)!r} cannot be written: {error.strerror}") from error
        self._end = os.fstat(self._file).st_size
        self._hash = hashlib.sha256(bytes_of(self.path))

    @property
    def digest(self) -> str:
        """The sha256 of all its bytes, in hexadecimal."""
        return self._hash.hexdigest()

    def write(self, lines: bytes) -> None:
        """Append all lines or nothing; the first call truncates a resumed log and marks the resumption.

        Raises:
            RecordError: the disk is full, or the file system refused for another reason.
        """
        data = RESUMED + lines if self.untouched else lines
        try:
            if self.untouched:
                os.ftruncate(self._file, self._end)
            written = os.write(self._file, data)
            if written < len(data):  # the rest does not fit: this call says why
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, self._end)
            why = "the disk is full; free some space" if error.errno in FULL else error.strerror
            raise RecordError(f"{str(self.path)!r} cannot be written: {why}") from error
        self._end, self.untouched = self._end + written, False
        self._hash.update(data)

    def cut(self, size: int) -> None:
        """Write over all bytes after the first `size`, which are an incomplete line."""
        self._end, self._hash = size, hashlib.sha256(bytes_of(self.path)[:size])

    def sync(self) -> None:
        """Wait until the log is on the disk, so that a power cut loses nothing."""
        os.fsync(self._file)

    def close(self, *, discard: bool = False) -> None:
        """Close the log and release its lock; `discard` a new log, or a resumed one without a line of this process."""
        with suppress(OSError):  # a full disk was reported when a line was written
            os.fsync(self._file)
        os.close(self._file)
        if discard or self.untouched:
            remove_made(self._created)
        self._lock.release()


def in_use(folder: Path) -> bool:
    """Return whether a process is writing to a run's directory."""
    if not (folder / LOCK).exists():  # nor is one made: this is asked to read a run
        return False
    try:
        with FileLock(folder / LOCK).acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a read-only directory: nobody writes to it
        return False


def lines_of(folder: Path, number: int = 0, at: int = 0) -> Iterator[tuple[bytes, JSON]]:
    """Yield a log's lines after its first `number` lines of `at` bytes, unchecked, without an incomplete last one.

    Raises:
        RecordError: there is no log, or a line is not JSON.
    """
    path = folder / LOG
    try:
        with opened(path) as file:
            file.seek(at)
            while line := parsed(data := file.readline(LONGEST)):
                number += 1
                yield data, line
            if data.endswith(b"\n") and file.read(1):
                raise RecordError(f"run {str(path)!r} is damaged: line {number + 1} is not a line of a log; {REPAIR}")
    except OSError as error:
        raise RecordError(f"{str(folder)!r} contains no run: {LOG} cannot be read ({error.strerror})") from error


def without_surrogates(line: bytes) -> bytes:
    """Return a line with U+FFFD for each lone surrogate, which neither pydantic nor a file accepts."""
    if not SURROGATE.search(line):
        return line
    from sottovoce.prompts.structured import encodable  # late: its patterns take long to compile

    try:
        text = encodable(json.dumps(json.loads(line), ensure_ascii=False))
    except (ValueError, RecursionError):  # not JSON: the caller says so
        return line
    return text.encode() + (b"\n" if line.endswith(b"\n") else b"")


def first_line(folder: Path) -> JSON:
    """Return the first line of a log without reading the rest; {} if it is incomplete. Errors: see `lines_of`."""
    return next((line for _, line in lines_of(folder)), {})


def last_line(folder: Path) -> JSON:
    """Return the last line of a log without reading the rest; {} if it is incomplete or too long, or cannot be read."""
    with suppress(OSError), opened(folder / LOG) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - END))
        return parsed((file.read().splitlines(keepends=True) or [b""])[-1]) or {}
    return {}


def altered(folder: Path) -> list[str]:
    """Return a note if lines before a log's last digest were lost, doubled or changed. Raises an OSError."""
    data = bytes_of(folder / LOG)
    at = 1 + max(data.rfind(b'\n{"line":"' + end) for end in (b"done", b"stopped"))
    closing = parsed(data[at:].partition(b"\n")[0] + b"\n") or {}
    digest = hashlib.sha256(memoryview(data)[:at]).hexdigest()
    return [] if closing.get("digest") in (None, digest) else [f"{ALTERED} (its digest does not match); {REPAIR}"]


def parsed(line: bytes) -> JSON | None:
    """Return a line of a log as JSON, or None if it is not one."""
    try:
        value: JSONValue = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "line" in value else None


# The default place of runs


def runs_folder() -> Path:
    """Return `$SOTTOVOCE_RUNS`, or `sottovoce/runs` in the user's state directory (XDG)."""
    if chosen := os.environ.get("SOTTOVOCE_RUNS"):
        return Path(chosen)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sottovoce" / "runs"


def saved_runs(*folders: Path) -> list[Path]:
    """Return the directories of all runs in these folders, by default in the default place, in order of their names."""
    return sorted(log.parent for folder in folders or (runs_folder(),) for log in folder.glob(f"*/{LOG}"))


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
    starts, folders = dict.fromkeys((Path(name), runs_folder() / name)), saved_runs()  # one for an absolute path
    for folder in starts:  # the latter may also be a row of an experiment
        if (folder / LOG).exists():
            return folder
    if rows := saved_runs(*starts):
        names = ", ".join(repr(row.name) for row in rows)
        raise RecordError(f"{name!r} is not a run but contains some: {names}; name one of them: {str(rows[0])!r}")
    if name == "latest":
        for folder in reversed(folders):
            with suppress(RecordError):  # it is no run
                if first_line(folder) and (over or (last_line(folder).get("line") != "done" and not in_use(folder))):
                    return folder
        act, why = ("show", "unreadable") if over else ("resume", "over, in use or unreadable")
        found = f"found no run to {act} in {str(runs_folder())!r}{f': each is {why}' if folders else ''}"
        raise RecordError(f"{found}; for a run of --save FOLDER: {command('runs', act, 'FOLDER')}")
    matches = [folder for folder in folders if folder.name.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    why = f"{len(matches)} runs begin with it" if matches else "there is no such run, nor a folder that contains one"
    raise RecordError(f"unknown run {name!r}: {why}; see {command('runs', 'list')}, or give a folder")


def run_name(folder: Path) -> str:
    """Return the name that `find_run` accepts for a run."""
    return folder.name if folder.parent == runs_folder() else str(folder)


def last_written(folder: Path) -> float:
    """Return when a run's log was last written to, in seconds since 1970."""
    return (folder / LOG).stat().st_mtime


def remove(folders: Sequence[Path]) -> None:
    """Remove all of these runs or nothing.

    Raises:
        UsageError: one of them is not in the default place, or a process uses it.
    """
    for folder in folders:
        if not folder.resolve().is_relative_to(runs_folder().resolve()):  # it may be a row of an experiment
            raise UsageError(f"run {str(folder)!r} is not in {str(runs_folder())!r}; delete its folder yourself")
        if in_use(folder):
            raise UsageError(f"run {folder.name!r} is in use by another process; wait until that ends")
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
