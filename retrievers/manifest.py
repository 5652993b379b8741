"""What an index says of itself: how it was made, of what, and with which libraries."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

from sottovoce.checked import Checked
from sottovoce.errors import CorpusError, UsageError
from sottovoce.outputs import INDEX
from sottovoce.regular import bytes_of

FILE = INDEX
AGAIN = "build it again with `python cli.py index`"


class Manifest(Checked):
    """The file `manifest.json` of an index; it is written last, so a folder that has one is whole."""

    format: Literal[1] = 1
    retriever: str
    """The name of what reads it."""
    passages: int
    digest: str
    """Of the passages, as `digest_of` makes it."""
    settings: dict[str, Any]  # Any: JSON; each retriever has its own
    corpus: str
    """The name of the file that was read."""
    skipped: int = 0
    """Passages of it that were bad, and left out."""
    made_with: dict[str, str]
    """Libraries and their versions."""

    @property
    def fingerprint(self) -> str:
        """Equal where the same passages were indexed with the same settings."""
        return fingerprint(self.retriever, self.digest, self.settings)


def fingerprint(retriever: str, digest: str, settings: dict[str, Any]) -> str:  # Any: JSON
    """Return 16 hexadecimal digits for an index of passages with this digest; settings that are None do not count."""
    given = {name: value for name, value in settings.items() if value is not None}
    told = json.dumps([retriever, digest, given], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def read_manifest(folder: Path, retriever: str) -> Manifest:
    """The manifest of an index that `retriever` is to read.

    Raises:
        CorpusError: there is no whole index, it is another retriever's, or of another format.
    """
    try:
        found = json.loads(bytes_of(folder / FILE))
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(f"there is no index in {str(folder)!r}: it has no {FILE}; {AGAIN}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{FILE} of index {str(folder)!r} cannot be read: {error}; {AGAIN}") from error
    try:
        manifest = Manifest.model_validate(found)
    except UsageError as error:
        raise CorpusError(f"index {str(folder)!r}: {error}; {AGAIN}") from error
    if manifest.retriever != retriever:
        raise CorpusError(
            f"index {str(folder)!r} is one of {manifest.retriever!r}: it cannot be opened as {retriever!r}"
        )
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Lay it beside the index."""
    write_whole(folder / FILE, manifest.model_dump_json(indent=2) + "\n")


def write_whole(file: Path, text: str) -> None:
    """All of a text or nothing; it is on the disk when this returns."""
    partial = file.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)
