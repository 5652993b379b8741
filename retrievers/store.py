"""The passages of an index on disk: by row, as indexes count them, and by docid. One SQLite file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sottovoce.errors import CorpusError
from sottovoce.retrievers.manifest import AGAIN
from sottovoce.retrievers.passage import Passage

FILE = "passages.sqlite"
COLUMNS = "docid, text, title, url, metadata"
EARLIER = "docid, text, title, url, '{}'"
"""Of an index that was made before passages had metadata."""
TABLE = f"CREATE TABLE IF NOT EXISTS passages (row INTEGER PRIMARY KEY, {COLUMNS}, UNIQUE (docid))"


class Passages(Protocol):
    """Passages by row; a list is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Passage: ...


class PassageStore:
    """The passages of a finished index, for any number of threads; nothing of them is held in memory."""

    def __init__(self, folder: Path) -> None:
        """Open the store that lies in an index's folder.

        Raises:
            CorpusError: there is none, or it is no SQLite file of ours.
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
        """The passage in a row, 0-based.

        Raises:
            IndexError: there is no such row.
        """
        if (found := self._one("row", row)) is None:
            raise IndexError(row)
        return found

    def find(self, docid: str) -> Passage | None:
        """The passage of that docid."""
        return self._one("docid", docid)

    def close(self) -> None:
        """Let go of the file."""
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
    """Add passages from row `first` on, all or none; rows that stand there already are written over.

    Raises:
        CorpusError: two passages have one docid.
    """
    rows = [(first + i, each.docid, each.text, each.title, each.url, _json(each)) for i, each in enumerate(passages)]
    connection = sqlite3.connect(folder / FILE)
    try:
        with connection:  # commits, or takes all back
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
        raise CorpusError(f"two passages are named {row[1]!r}; each needs a docid of its own") from None


def digest_of(passages: Sequence[Passage], before: str = "") -> str:
    """A digest of passages in their order; `before` is that of the ones in front of them."""
    for each in passages:
        more = [_json(each)] if each.metadata else []
        told = json.dumps([before, each.docid, each.text, each.title, each.url, *more])
        before = hashlib.sha256(told.encode()).hexdigest()
    return before


def _json(passage: Passage) -> str:
    return json.dumps(dict(passage.metadata), sort_keys=True)
