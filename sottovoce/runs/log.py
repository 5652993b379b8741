"""The log of a run, `RUN/log.jsonl`: one line of JSON for each thing that happened, only ever added to.

    {"line": "run", ...}                        the run's manifest, always first (`RunManifest`)
    {"line": "question", "question": {...}}     every question, before the first is asked
    {"line": "asked", "of": [id, seed], ...}    an agent was asked to say something (`Asked`)
    {"line": "step", "of": ..., "task": "3/agent_1", "seconds": ..., "events": [...], "update": {...}}
                                                a step of the graph: superstep and node, its events, and its update
                                                without messages, by which a resumed run repeats it
    {"line": "replied", "of": ..., "task": ..., "reply": ...}
                                                a human replied to a request of a step
    {"line": "again", "of": ...}                the discussion restarts
    {"line": "failed", "of": ..., "error": ..., "seconds": ...}
    {"line": "stopped", "why": ..., "nbytes": ..., "digest": ...}, {"line": "resumed"}, {"line": "done", ...}
                                                nbytes: of all payloads; digest: the sha256 of all bytes before it

A killed process leaves at most an incomplete line at the end, which is cut off when the run is resumed. A resumed
log is written to with the first new line: if the run is refused before, its folder stays as it was.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import RecordError
from sottovoce.core.files import RUN, bytes_of, check_no_link, missing, opened, remove_made

LOG = RUN
LOCK = "lock"
REPAIR = "restore the log from a copy, or run its questions again"
FORMAT = "sottovoce.run"
VERSION = 1
ENCODER = json.JSONEncoder(separators=(",", ":"))
END = 4096
"""Largest size of a log's last line, in bytes."""
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""A surrogate (half of a character), escaped."""
RESUMED: JSON = {"line": "resumed"}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Log:
    """The log of a run, open for writing; one process at a time."""

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        """Lock a run's directory and open its log; `new` creates both, otherwise the log is resumed.

        Raises:
            RecordError: another process uses it, it cannot be written, or there is a link in it.
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

    def write(self, lines: Sequence[JSON]) -> None:
        """Append lines, all or none.

        Raises:
            RecordError: the disk is full, or the file system refused for another reason.
        """
        begin = [RESUMED] if self.untouched else []
        data = b"".join(map(encoded, (*begin, *lines)))
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


def read(folder: Path, wrong_in: Callable[[bytes], str] | None = None) -> tuple[list[JSON], int, int]:
    """Return the lines of a log, their size in bytes, and the size of an incomplete line after them.

    `wrong_in` (of `log_lines`) says what is wrong with a line, "" for nothing; None accepts all with a `line` key.

    Raises:
        RecordError: there is no log, or a line is damaged; says which field, what was found and what was expected.
    """
    path = folder / LOG
    try:
        data = bytes_of(path)
    except OSError as error:
        raise RecordError(f"{str(folder)!r} contains no run: {LOG} cannot be read ({error.strerror})") from error
    lines, sound = list[JSON](), 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        parsed_line = parsed(line)
        if parsed_line is None:
            if sound + len(line) < len(data):
                raise RecordError(f"run {str(path)!r} is damaged: line {number} is not a line of a log; {REPAIR}")
            break
        head = lines[0] if lines else parsed_line  # the lines of other versions cannot be checked
        if wrong_in is not None and (head.get("format"), head.get("version")) == (FORMAT, VERSION):
            wrong = wrong_in(line)
            if not wrong and (parsed_line["line"] == "run") != (number == 1):
                wrong = f"its kind is {parsed_line['line']!r}: expected 'run' in the first line, and only there"
            if wrong:
                raise RecordError(f"run {str(path)!r} is damaged: line {number}: {wrong}; {REPAIR}")
        # The first line may name files whose bytes are not text.
        lines.append(_without_surrogates(line, parsed_line) if lines else parsed_line)
        sound += len(line)
    return lines, sound, len(data) - sound


def _without_surrogates(line: bytes, parsed_line: JSON) -> JSON:
    """Return a line with U+FFFD for each surrogate, which cannot be written to a file."""
    if not SURROGATE.search(line):
        return parsed_line
    from sottovoce.prompts.structured import encodable  # late: its patterns take long to compile

    whole: JSON = json.loads(encodable(json.dumps(parsed_line, ensure_ascii=False)))
    return whole


def last_line(folder: Path) -> JSON:
    """Return the last line of a log without reading the rest; {} if it is incomplete or too long."""
    with opened(folder / LOG) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - END))
        return parsed((file.read().splitlines(keepends=True) or [b""])[-1]) or {}


def parsed(line: bytes) -> JSON | None:
    """Return a line of a log as JSON, or None if it is not one."""
    try:
        value: JSONValue = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "line" in value else None


def encoded(line: JSON) -> bytes:
    """Return a line as the log has it."""
    return ENCODER.encode(line).encode() + b"\n"
