"""The manifest of an index: its passages, settings and corpus, and the libraries that built it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.outputs import INDEX
from sottovoce.core.regular_files import bytes_of
from sottovoce.core.validation import Checked

FILE = INDEX
AGAIN = "build it again with `python cli.py data index`"


class Manifest(Checked):
    """The file `manifest.json` of an index; it is written last, so an index with a manifest is complete."""

    format: Literal[1] = 1
    retriever: str
    """Name of the retriever that reads the index."""
    passages: int
    digest: str
    """Digest of the passages, as `digest_of` returns it."""
    settings: dict[str, Any]  # Any: JSON; each retriever has its own
    corpus: str
    """Name of the file that was read."""
    skipped: int = 0
    """Number of bad passages that were skipped."""
    made_with: dict[str, str]
    """Versions of the libraries used, by name."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint that is equal if the same passages were indexed with the same settings."""
        return fingerprint(self.retriever, self.digest, self.settings)


def fingerprint(retriever: str, digest: str, settings: dict[str, Any]) -> str:  # Any: JSON
    """Return 16 hexadecimal digits for an index of passages with this digest, ignoring settings that are None."""
    given = {name: value for name, value in settings.items() if value is not None}
    told = json.dumps([retriever, digest, given], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def read_manifest(folder: Path, retriever: str) -> Manifest:
    """Return the manifest of an index that `retriever` will read.

    Raises:
        CorpusError: there is no complete index, it belongs to another retriever, or it has another format.
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
            f"index {str(folder)!r} was built for {manifest.retriever!r} and cannot be opened as {retriever!r}"
        )
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest into the directory of the index."""
    write_whole(folder / FILE, manifest.model_dump_json(indent=2) + "\n")


def write_whole(file: Path, text: str) -> None:
    """Write a text file completely or not at all, and sync it to disk."""
    partial = file.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)
