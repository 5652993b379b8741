"""The files of an index that all retrievers share: its manifest, and its passages by row and by docid in SQLite."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.files import bytes_of
from sottovoce.core.outputs import INDEX
from sottovoce.core.validation import Checked
from sottovoce.retrievers.passage import Passage

FILE = INDEX
Settings = TypeVar("Settings", bound=Checked)
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
    own = {name: value for name, value in settings.items() if value is not None}
    return hashlib.sha256(json.dumps([retriever, digest, own], sort_keys=True).encode()).hexdigest()[:16]


def read_index(folder: Path, retriever: str, kind: type[Settings]) -> tuple[Manifest, Settings]:
    """Return the manifest of an index that `retriever` will read, and the settings in it.

    Raises:
        CorpusError: there is no complete index, or it belongs to another retriever, format or kind of settings.
    """
    try:
        content = json.loads(bytes_of(folder / FILE))
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(f"there is no index in {str(folder)!r}: it has no {FILE}; {AGAIN}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{FILE} of index {str(folder)!r} cannot be read: {error}; {AGAIN}") from error
    try:
        manifest = Manifest.model_validate(content)
    except UsageError as error:
        raise CorpusError(f"index {str(folder)!r}: {error}; {AGAIN}") from error
    if manifest.retriever != retriever:
        raise CorpusError(
            f"index {str(folder)!r} was built for {manifest.retriever!r} and cannot be opened as {retriever!r}"
        )
    try:
        return manifest, kind.model_validate(manifest.settings)
    except UsageError as error:
        raise CorpusError(f"index {str(folder)!r} was built differently: {error}; {AGAIN}") from error


def index_folder(where: str, retriever: str) -> Path:
    """Return the directory of an index that `where` names; an empty `where` is a UsageError."""
    if not where:
        raise UsageError(f"{retriever} needs the directory of an index, e.g. {retriever}:indexes/wiki")
    return Path(where).expanduser()


def paths_in(where: str) -> list[Path]:
    """Return the paths in `where`, which are separated by commas."""
    return [Path(path.strip()).expanduser() for path in where.split(",") if path.strip()]


def write_whole(file: Path, text: str) -> None:
    """Write a text file completely or not at all, and sync it to disk."""
    partial = file.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


PASSAGES = "passages.sqlite"
COLUMNS = "docid, text, title, url, metadata"
EARLIER = "docid, text, title, url, '{}'"
"""Columns in indexes from before passages had metadata."""
TABLE = f"CREATE TABLE IF NOT EXISTS passages (row INTEGER PRIMARY KEY, {COLUMNS}, UNIQUE (docid))"


class Passages(Protocol):
    """Passages by row, such as a list of them."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Passage: ...


class PassageStore:
    """The passages of a finished index. They stay on disk, and any number of threads may read them."""

    def __init__(self, folder: Path) -> None:
        """Open the store in the directory of an index.

        Raises:
            CorpusError: there is no store, or it is not one of our SQLite files.
        """
        self._file, self._lock = folder / PASSAGES, threading.Lock()
        with self._clear_errors():
            self._read = sqlite3.connect(f"{self._file.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
            self._rows = int(self._read.execute("SELECT COUNT(*) FROM passages").fetchone()[0])
            named = {name for _, name, *_ in self._read.execute("PRAGMA table_info(passages)")}
            self._columns = COLUMNS if "metadata" in named else EARLIER

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, row: int) -> Passage:
        """Return the passage in a row, 0-based.

        Raises:
            IndexError: there is no such row.
        """
        if (passage := self._passage("row", row)) is None:
            raise IndexError(row)
        return passage

    def find(self, docid: str) -> Passage | None:
        """Return the passage with this docid, or None."""
        return self._passage("docid", docid)

    def close(self) -> None:
        """Close the file."""
        self._read.close()

    def _passage(self, column: str, value: str | int) -> Passage | None:
        with self._lock, self._clear_errors():
            rows = self._read.execute(f"SELECT {self._columns} FROM passages WHERE {column} = ?", (value,))
            row = rows.fetchone()
        if row is None:
            return None
        docid, text, title, url, metadata = row
        return Passage(docid, text, title, url, json.loads(metadata))

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise CorpusError(f"{str(self._file)!r} cannot be read: {error}; {AGAIN}") from error


def write_passages(folder: Path, passages: Sequence[Passage], first: int) -> None:
    """Add passages from row `first` on, all or none; existing rows from there on are replaced."""
    rows = [(first + i, p.docid, p.text, p.title, p.url, _json(p)) for i, p in enumerate(passages)]
    connection = sqlite3.connect(folder / PASSAGES)
    try:
        with connection:  # commits, or rolls back
            connection.execute(TABLE)
            connection.execute("DELETE FROM passages WHERE row >= ?", (first,))
            for row in rows:
                try:
                    connection.execute(f"INSERT INTO passages (row, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)
                except sqlite3.IntegrityError:
                    raise CorpusError(f"two passages have the docid {row[1]!r}; each needs its own") from None
    finally:
        connection.close()


def digest_of(passages: Sequence[Passage], before: str = "") -> str:
    """Return a digest of passages in their order; `before` is the digest of the preceding passages."""
    for passage in passages:
        metadata = [_json(passage)] if passage.metadata else []
        content = json.dumps([before, passage.docid, passage.text, passage.title, passage.url, *metadata])
        before = hashlib.sha256(content.encode()).hexdigest()
    return before


def _json(passage: Passage) -> str:
    return json.dumps(dict(passage.metadata), sort_keys=True)
