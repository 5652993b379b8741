"""The passages of an index on disk, by row of the index and by docid, in one SQLite file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sottovoce.core.errors import CorpusError
from sottovoce.retrievers.manifest import AGAIN
from sottovoce.retrievers.passage import Passage

FILE = "passages.sqlite"
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
        self._file, self._lock = folder / FILE, threading.Lock()
        with self._told():
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
        if (found := self._one("row", row)) is None:
            raise IndexError(row)
        return found

    def find(self, docid: str) -> Passage | None:
        """Return the passage with this docid, or None."""
        return self._one("docid", docid)

    def close(self) -> None:
        """Close the file."""
        self._read.close()

    def _one(self, column: str, value: str | int) -> Passage | None:
        with self._lock, self._told():
            found = self._read.execute(f"SELECT {self._columns} FROM passages WHERE {column} = ?", (value,))
            row = found.fetchone()
        if row is None:
            return None
        docid, text, title, url, metadata = row
        return Passage(docid, text, title, url, json.loads(metadata))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise CorpusError(f"{str(self._file)!r} cannot be read: {error}; {AGAIN}") from error


def write_passages(folder: Path, passages: Sequence[Passage], first: int) -> None:
    """Add passages from row `first` on, all or none; existing rows from there on are replaced.

    Raises:
        CorpusError: two passages have the same docid.
    """
    rows = [(first + i, each.docid, each.text, each.title, each.url, _json(each)) for i, each in enumerate(passages)]
    connection = sqlite3.connect(folder / FILE)
    try:
        with connection:  # commits, or rolls back
            connection.execute(TABLE)
            connection.execute("DELETE FROM passages WHERE row >= ?", (first,))
            for row in rows:
                _insert(connection, row)
    finally:
        connection.close()


def _insert(connection: sqlite3.Connection, row: tuple[object, ...]) -> None:
    try:
        connection.execute(f"INSERT INTO passages (row, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)
    except sqlite3.IntegrityError:
        raise CorpusError(f"two passages have the docid {row[1]!r}; each needs its own") from None


def digest_of(passages: Sequence[Passage], before: str = "") -> str:
    """Return a digest of passages in their order; `before` is the digest of the preceding passages."""
    for each in passages:
        more = [_json(each)] if each.metadata else []
        told = json.dumps([before, each.docid, each.text, each.title, each.url, *more])
        before = hashlib.sha256(told.encode()).hexdigest()
    return before


def _json(passage: Passage) -> str:
    return json.dumps(dict(passage.metadata), sort_keys=True)
