"""Files that a run leaves: refused before it starts where they could not be written, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from sottovoce.errors import RecordError, UsageError


def check_writable(file: Path, option: str, *, make: bool = False) -> None:
    """Refuse a file that could not be written; `make` allows for folders that do not exist yet.

    Raises:
        UsageError: it is a folder, its folder does not exist, or must not be written to.
    """
    folder = file.parent
    while make and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if file.is_dir():
        raise UsageError(f"{option} {str(file)!r} is a folder; give a file")
    if not folder.is_dir():
        raise UsageError(f"{option} {str(file)!r} cannot be written: {str(folder)!r} is no folder")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"{option} {str(file)!r} cannot be written: no permission")


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        RecordError: the file system refused, e.g. because it is full.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    special = path.exists() and not path.is_file()  # /dev/stdout, a pipe: nothing to put another file in the place of
    try:
        (path if special else unfinished).write_text(text, encoding="utf-8", errors="backslashreplace")
        if not special:
            os.replace(unfinished, path)
    except OSError as error:
        raise RecordError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
