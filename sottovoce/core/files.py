"""Readers of regular files, and the user's folders of stored models and the config file.

A path from outside may be a pipe, an endless device or a folder; the readers refuse these at once.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def opened(path: str | Path) -> BufferedReader:
    """Open a regular file for reading bytes; refuse anything else at once, without reading or waiting.

    Raises:
        OSError: the file does not exist, cannot be read, or is not a regular file.
    """
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode) or os.path.samestat(os.fstat(number), os.stat(os.devnull)):  # allow an empty file
        return os.fdopen(number, "rb")
    os.close(number)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is a pipe, a socket or a device; give a regular file", str(path))


def bytes_of(path: str | Path) -> bytes:
    """Return the bytes of a regular file. Errors: see `opened`."""
    with opened(path) as file:
        return file.read()


def text_of(path: str | Path) -> str:
    """Return the text of a regular file with newlines as `Path.read_text` translates them. Errors: see `opened`."""
    return bytes_of(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def models_folder() -> Path:
    """Return the folder of stored models: `$SOTTOVOCE_MODELS`, or `sottovoce/models` in the user's cache folder."""
    if chosen := os.environ.get("SOTTOVOCE_MODELS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sottovoce" / "models"
