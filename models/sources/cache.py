"""The folder of models that were pulled or converted on this machine, with a record next to each one's weights.

A folder appears there complete or not at all: it is made under another name and renamed last.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

from sottovoce.core.errors import ModelError
from sottovoce.core.files import bytes_of, nbytes_of, opened, text_of

RECORD = "source.json"
PARTIAL = ".partial-"
CONVERTED = "gguf-"
"""Begins the name of a folder with the contents of a GGUF file; the file's digest follows."""
MOST_CONVERTED = 30e9
"""Bytes of all those folders; a file whose folder was removed is converted again."""
DAY = 24 * 3600
Report = Callable[[str], object]
"""Receives a line about the current step."""
LOGGER = logging.getLogger(__name__)


class Source(BaseModel):
    """The source of a folder's weights."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    """Version of the folder's contents; a folder in another format is made again."""
    origin: str
    """The package with its version and the file in it, or the name of a file."""
    digest: str
    """The sha256 of the package's wheel, or of the file."""
    licence: str
    split: str = ""
    """The rule of a GGUF file for splitting text into words before tokenization; empty if it names none."""


def source_of(folder: Path) -> Source | None:
    """Return the record of a folder; None if it has none, or one in another format."""
    try:
        return Source.model_validate_json(bytes_of(folder / RECORD))
    except (OSError, ValidationError):
        return None


def write_source(folder: Path, source: Source) -> None:
    """Write the record and the digests next to the weights."""
    write_sums(folder)
    (folder / RECORD).write_text(source.model_dump_json(indent=2) + "\n", encoding="utf-8")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder to fill; it replaces `folder` if the block succeeds, and is deleted if not.

    Raises:
        ModelError: the cache is not writable.
    """
    partial = folder.with_name(f"{PARTIAL}{os.getpid()}-{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise ModelError(
            f"cannot store models in {str(folder.parent)!r}: {error.strerror}; set SOTTOVOCE_MODELS to another folder"
        ) from error
    for left in folder.parent.glob(f"{PARTIAL}*"):  # of processes that were killed
        owner = left.name.removeprefix(PARTIAL).partition("-")[0]
        if not (owner.isdecimal() and psutil.pid_exists(int(owner))):
            shutil.rmtree(left, ignore_errors=True)
    try:
        yield partial
        _replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replace(partial: Path, folder: Path) -> None:
    if folder.exists():  # of another version or format
        folder.replace(partial.with_name(f"{partial.name}-old"))
    try:
        partial.replace(folder)
    except OSError:
        if source_of(folder) is None:  # otherwise another process made the same one first
            raise
    shutil.rmtree(partial.with_name(f"{partial.name}-old"), ignore_errors=True)


def remove_oldest(last: Path, limit: float = MOST_CONVERTED) -> None:
    """Delete the least recently used conversions of GGUF files beyond `limit` bytes in all.

    `last`, the newest, always stays. Conversions that were used within a day stay, too.
    """
    folders = [folder for folder in last.parent.glob(f"{CONVERTED}*") if folder != last and source_of(folder)]
    total = nbytes_of(last)
    for folder in sorted(folders, key=lambda folder: (folder / RECORD).stat().st_mtime, reverse=True):
        total += nbytes_of(folder)
        if total > limit and (folder / RECORD).stat().st_mtime < time.time() - DAY:
            LOGGER.info("removing %s, which was not used for longest", folder)
            shutil.rmtree(folder, ignore_errors=True)


SUMS = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """Write the digests of a folder's weights next to them."""
    lines = (f"{digest_of(file)}  {file.name}\n" for file in sorted(folder.glob("*.safetensors")))
    (folder / SUMS).write_text("".join(lines), encoding="ascii")


def changed(folder: Path) -> list[str] | None:
    """Return the files that do not match their recorded digests, in order; None if none were recorded."""
    try:
        lines = text_of(folder / SUMS).splitlines()
    except (OSError, ValueError):
        return None
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return [
        name for name, digest in sums.items() if not (folder / name).is_file() or digest_of(folder / name) != digest
    ]


def digest_of(file: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
