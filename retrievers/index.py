"""Indexes of passages on disk: their construction from a corpus, resumable after each shard, and the stored passages.

A corpus is JSON Lines or the TSV of DPR's Wikipedia (`psgs_w100.tsv`), optionally as .gz, and is read as a stream. The
work is done in a hidden directory next to the requested one, which gets its name when it is complete. After a kill the
same command resumes from the last shard.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, TypeVar

from filelock import FileLock, Timeout

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import LONGEST_LINE
from sottovoce.core.errors import CorpusError, UsageError, command
from sottovoce.core.files import INDEX, bytes_of, missing, opened, remove_made
from sottovoce.core.text import amount
from sottovoce.core.validation import Checked
from sottovoce.retrievers.passage import Metadata, Passage, plain

DOCID, TEXT = ("docid", "id", "_id"), ("text", "contents")
"""Names of fields in a JSON object: those of pyserini, BEIR and DPR."""
NAMED = {*DOCID, *TEXT, "title", "url", "metadata"}
HEADING = ["id", "text", "title"]
AGAIN = f"build it again with {command('data', 'index')}"
SHARD = 20_000
"""Default number of passages in a shard."""
Settings = TypeVar("Settings", bound=Checked)


class Corpus:
    """A file of passages; each iteration reads it from the start."""

    def __init__(self, path: Path, *, skip_bad: bool = False) -> None:
        """Take the path of a file without reading it; `skip_bad` skips and counts bad passages such as empty texts.

        Raises:
            CorpusError: there is no such file, or its name does not end in .jsonl or .tsv (optionally with .gz).
        """
        ending = Path(path.name.removesuffix(".gz")).suffix
        if ending not in (".jsonl", ".tsv"):
            raise CorpusError(f"corpus {str(path)!r} is not a .jsonl or .tsv file (optionally with .gz)")
        try:
            state = path.stat()
        except OSError as error:
            raise CorpusError(f"corpus {str(path)!r} cannot be read: {error.strerror}") from error
        self.path, self.size, self._skip_bad = path, state.st_size, skip_bad
        self._rows = _tsv_rows if ending == ".tsv" else _json_rows
        self.identity = [path.name, state.st_size, state.st_mtime_ns, skip_bad]
        """Values that change when the file does."""
        self.position = 0
        """Number of bytes read so far."""
        self.skipped, self.first_skipped = 0, ""

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in order; a CorpusError if the file or a passage in it cannot be read."""
        self.skipped, self.first_skipped, number = 0, "", 0
        try:
            with opened(self.path) as raw, _text(self.path, raw) as stream:
                for row in self._rows(stream):
                    self.position, number = raw.tell(), number + 1
                    try:
                        passage = _passage(json.loads(row) if isinstance(row, str) else _fields(row))
                    except (ValueError, RecursionError) as error:
                        if not self._skip_bad:
                            raise ValueError(f"{error}; use `skip_bad=True` to skip such passages") from error
                        self.skipped += 1
                        self.first_skipped = self.first_skipped or f"passage {number}: {error}"
                    else:
                        yield passage
        except (ValueError, EOFError, OSError, csv.Error) as error:
            raise CorpusError(f"corpus {str(self.path)!r} cannot be read at passage {number or 1}: {error}") from error


def _text(path: Path, raw: Any) -> TextIOWrapper:  # Any: an open binary file
    binary: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
    return TextIOWrapper(binary, encoding="utf-8-sig", newline="")


def _lines(stream: TextIO) -> Iterator[str]:
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"its line is longer than {amount(LONGEST_LINE)}")
        yield line


def _json_rows(stream: TextIO) -> Iterator[str]:
    return (line for line in _lines(stream) if line.strip())


def _tsv_rows(stream: TextIO) -> Iterator[list[str]]:
    csv.field_size_limit(LONGEST_LINE)  # its default is 131072 characters
    rows = csv.reader(_lines(stream), delimiter="\t")
    if (heading := next(rows, [])) != HEADING:
        raise ValueError(f"the heading is {heading!r}: expected {HEADING!r}")
    yield from rows


def _fields(row: list[str]) -> dict[str, str]:
    if len(row) != len(HEADING):
        raise ValueError(f"a row of {len(row)} fields: expected id, text and title between tabs")
    return dict(zip(HEADING, row, strict=True))


def _passage(fields: JSONValue) -> Passage:
    """Return the passage in an object: docid, text, perhaps title and url, and other plain values as metadata."""
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object, found {str(fields)[:40]!r}")
    docid, text = _first(fields, DOCID), _first(fields, TEXT)
    if not isinstance(docid, str | int) or isinstance(docid, bool):
        raise ValueError(f"its docid is {docid!r}: expected a string or a number")
    passage = Passage(str(docid), text, fields.get("title") or "", fields.get("url"), metadata_of(fields))
    for name, value in {"text": text, "title": passage.title, "url": passage.url or ""}.items():
        if not isinstance(value, str):
            raise ValueError(f"its {name} is {value!r}: expected a string")
    if len(passage.docid.splitlines()) != 1:  # the index of vectors lists docids one per line
        raise ValueError(f"its docid {passage.docid!r} is not one line")
    if not text.strip():
        raise ValueError("its text is empty")
    json.dumps([docid, text, passage.title, passage.url, dict(passage.metadata)], ensure_ascii=False).encode()
    return passage


def _first(fields: JSON, names: tuple[str, ...]) -> JSONValue:
    return next((fields[name] for name in names if name in fields), None)


def metadata_of(fields: JSON) -> Metadata:
    """Return the metadata in a passage's JSON object: its other strings, numbers and booleans."""
    own = fields.get("metadata") if isinstance(fields.get("metadata"), dict) else {}
    return plain({name: value for name, value in {**fields, **(own or {})}.items() if name not in NAMED})


class PassageStore:
    """The passages of an index by row and by docid. They stay on disk, and any number of threads may read them."""

    def __init__(self, folder: Path, *, new: bool = False) -> None:
        """Open the store in the directory of an index; `new` creates it if there is none.

        Raises:
            CorpusError: there is no store, or it is not one of our SQLite files.
        """
        self._file, self._lock = folder / "passages.sqlite", threading.Lock()
        where = f"{self._file.absolute().as_uri()}?mode={'rwc' if new else 'ro'}"
        with self._clear_errors():
            self._rows = sqlite3.connect(where, uri=True, check_same_thread=False)
            if new:
                names = "docid UNIQUE, text, title, url, metadata"
                self._rows.execute(f"CREATE TABLE IF NOT EXISTS passages (row INTEGER PRIMARY KEY, {names})")
            self._count = int(self._rows.execute("SELECT COUNT(*) FROM passages").fetchone()[0])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> Passage:
        """Return the passage in a row, 0-based; IndexError if there is none."""
        if (passage := self._passage("row", row)) is None:
            raise IndexError(row)
        return passage

    def find(self, docid: str) -> Passage | None:
        """Return the passage with this docid, or None."""
        return self._passage("docid", docid)

    def add(self, passages: Sequence[Passage]) -> None:
        """Append passages, all or none."""
        numbered = enumerate(passages, self._count)
        rows = ((row, p.docid, p.text, p.title, p.url, json.dumps(dict(p.metadata))) for row, p in numbered)
        try:
            with self._rows:  # commits, or rolls back
                self._rows.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)", rows)
        except sqlite3.IntegrityError:
            counts = {p.docid: 0 for p in passages}
            twice = next((p.docid for p in passages if self.find(p.docid) or counts.pop(p.docid, 1)), "")
            raise CorpusError(f"two passages have the docid {twice!r}; each needs its own") from None
        self._count += len(passages)

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def _passage(self, column: str, value: str | int) -> Passage | None:
        with self._lock, self._clear_errors():
            query = f"SELECT docid, text, title, url, metadata FROM passages WHERE {column} = ?"
            row = self._rows.execute(query, (value,)).fetchone()
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


class Manifest(Checked):
    """The file `manifest.json` of an index; it is written last, so an index with a manifest is complete."""

    format: Literal[1] = 1
    retriever: str
    """Name of the retriever that reads the index."""
    passages: int
    settings: JSON


def read_index(folder: Path, retriever: str, kind: type[Settings]) -> tuple[PassageStore, Settings]:
    """Return the passages of an index that `retriever` will read, and its settings.

    Raises:
        CorpusError: there is no complete index, or it belongs to another retriever, format or kind of settings.
    """
    try:
        manifest = Manifest.model_validate(json.loads(bytes_of(folder / INDEX)))
        settings = kind.model_validate(manifest.settings)
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(f"there is no index in {str(folder)!r}: it has no {INDEX}; {AGAIN}") from None
    except (OSError, ValueError, RecursionError, UsageError) as error:
        raise CorpusError(f"{INDEX} of index {str(folder)!r} cannot be read: {error}; {AGAIN}") from error
    if manifest.retriever != retriever:
        raise CorpusError(f"index {str(folder)!r} was built for {manifest.retriever!r}; expected {retriever!r}")
    passages = PassageStore(folder)
    if len(passages) != manifest.passages:
        raise CorpusError(f"index {str(folder)!r} has {len(passages)} passages, not {manifest.passages}; {AGAIN}")
    return passages, settings


def index_folder(where: str, retriever: str) -> Path:
    """Return the directory of an index that `where` names; an empty `where` is a UsageError."""
    if not where:
        raise UsageError(f"{retriever} needs the directory of an index, e.g. {retriever}:indexes/wiki")
    return Path(where).expanduser()


class IndexBuilder(Protocol):
    """A builder of one kind of index."""

    name: str
    """Name of the retriever that reads the index."""

    @property
    def settings(self) -> Checked:
        """Settings of the index, which the manifest records."""

    def add(self, work: Path, first: int, passages: Sequence[Passage]) -> None:
        """Write a shard from row `first` on, overwriting the rest of an interrupted call."""

    def finish(self, work: Path, passages: PassageStore) -> None:
        """Write the index, and remove the files that `add` wrote."""


OnProgress = Callable[[int, float], object]
"""Callback that takes the number of indexed passages and the share of the corpus that was read, in [0, 1]."""


def build_index(
    builder: IndexBuilder,
    corpus: Corpus,
    folder: Path,
    shard: int = SHARD,
    on_progress: OnProgress = lambda passages, share: None,
) -> Manifest:
    """Build an index in a new directory, and save progress after every `shard` passages.

    Raises:
        CorpusError: the directory exists, another process is building the same index, a partial index there
            has another corpus or other settings, it cannot be written, or the corpus cannot be read or indexed.
    """
    settings = builder.settings.model_dump(mode="json")
    with _locked(folder) as work:
        _check_partial(work, json.dumps([builder.name, settings, shard, *corpus.identity]))
        store = PassageStore(work, new=True)
        try:
            left = islice(corpus, len(store), None)
            while passages := list(islice(left, shard)):
                builder.add(work, len(store), passages)
                store.add(passages)
                on_progress(len(store), corpus.position / corpus.size)
            if not len(store):
                none = f"no valid passages; {corpus.first_skipped}" if corpus.skipped else "no passages"
                raise CorpusError(f"corpus {str(corpus.path)!r} has {none}")
            builder.finish(work, store)
        except CorpusError:
            if not len(store):  # nothing to resume
                shutil.rmtree(work, ignore_errors=True)
            raise
        finally:
            store.close()
        manifest = Manifest(retriever=builder.name, passages=len(store), settings=settings)
        (work / INDEX).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (work / "partial.json").unlink()
        work.rename(folder)
    return manifest


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Yield the work directory, locked against other processes."""
    work = folder.with_name(f".{folder.name}.partial")
    lock, made = FileLock(folder.with_name(f".{folder.name}.lock")), missing(folder.parent)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock.acquire(timeout=0):
            if folder.exists():  # checked under the lock: another process may just have created it
                raise CorpusError(f"{str(folder)!r} already exists: remove it, or choose another directory")
            work.mkdir(exist_ok=True)
            try:
                yield work
            finally:
                if not work.exists():  # built, or refused
                    remove_made([Path(lock.lock_file), *made])
    except Timeout as error:
        raise CorpusError(f"another process is building the index {str(folder)!r}") from error
    except (OSError, sqlite3.OperationalError) as error:
        raise CorpusError(f"index {str(folder)!r} cannot be written: {error}; the same command resumes") from error


def _check_partial(work: Path, identity: str) -> None:
    """Record the corpus and the settings, or check that they are the same as before an interruption."""
    if not (file := work / "partial.json").exists():
        file.write_text(identity, encoding="utf-8")
    if file.read_text(encoding="utf-8") != identity:
        raise CorpusError(f"{str(work)!r} has a partial index of another corpus or other settings: remove it first")
