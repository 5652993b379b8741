"""Passages read from a file in a stream: JSON Lines, or the TSV of DPR's Wikipedia (`psgs_w100.tsv`), also as .gz.

A line of JSON names the passage `docid`, `id` or `_id`, and its words `text` or `contents`; `title` and
`url` may stand beside them. Those are the names of pyserini, BEIR and DPR. Other texts, numbers and truth values are
metadata, as are those of an object `metadata` (BEIR's); what is nested otherwise is passed over.
DPR's file has a heading `id<TAB>text<TAB>title`, and quotes where a text holds quotes.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from sottovoce.errors import CorpusError
from sottovoce.regular import opened
from sottovoce.retrievers.passage import Metadata, Passage, plain

DOCID, TEXT = ("docid", "id", "_id"), ("text", "contents")
NAMED = {*DOCID, *TEXT, "title", "url", "metadata"}
HEADING = ["id", "text", "title"]
LONE = re.compile("[\ud800-\udfff]")
"""JSON may write one half of a pair alone."""
LONGEST_FIELD = 2**31 - 1  # characters; csv refuses more than 131072 otherwise


class Corpus:
    """A file of passages; iterating reads it from the beginning."""

    def __init__(self, path: Path, *, skip_bad: bool = False) -> None:
        """`skip_bad` leaves out, and counts, what is no passage: an empty text, say. The file is not read yet.

        Raises:
            CorpusError: no such file, or a name that ends in neither .jsonl nor .tsv (nor with .gz).
        """
        readers: dict[str, Callable[[TextIO], Iterator[Callable[[], Passage]]]] = {".jsonl": _json_lines, ".tsv": _dpr}
        ending = Path(path.name.removesuffix(".gz")).suffix
        if ending not in readers:
            raise CorpusError(f"corpus {str(path)!r} is no .jsonl and no .tsv file (each may end in .gz)")
        self.path, self._read = path, readers[ending]
        try:
            state = path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        self.size = state.st_size
        """Bytes of the file."""
        self.identity = {"corpus": path.name, "bytes": state.st_size, "modified": state.st_mtime_ns}
        """What changes when the file does."""
        self.identity |= {"skip_bad": True} if skip_bad else {}
        self.position = 0
        """How many of its bytes were read so far."""
        self._skip_bad = skip_bad
        self.skipped = 0
        """How many passages were left out since the beginning."""
        self.first_skipped = ""
        """Which was the first of them, and why."""

    def __iter__(self) -> Iterator[Passage]:
        """Yield its passages in their order.

        Raises:
            CorpusError: the file cannot be read, or a passage in it, which is named by its number.
        """
        self.skipped, self.first_skipped, number = 0, "", 1
        try:
            with opened(self.path) as raw, _text(self.path, raw) as stream:
                for read in self._read(stream):
                    self.position = raw.tell()
                    passage = self._passage(read, number)
                    number += 1
                    if passage is not None:
                        yield passage
        except (ValueError, EOFError, gzip.BadGzipFile, csv.Error) as error:
            raise CorpusError(f"corpus {str(self.path)!r}, passage {number}: {error}") from error
        except OSError as error:
            raise self._unreadable(error) from error

    def _passage(self, read: Callable[[], Passage], number: int) -> Passage | None:
        """Return a passage; None where it is bad, and left out."""
        try:
            return read()
        except (ValueError, RecursionError) as error:
            if not self._skip_bad:
                hint = "; --skip-bad leaves such passages out"
                raise CorpusError(f"corpus {str(self.path)!r}, passage {number}: {error}{hint}") from error
            self.skipped += 1
            self.first_skipped = self.first_skipped or f"passage {number}: {error}"
            return None

    def _unreadable(self, error: OSError) -> CorpusError:
        return CorpusError(f"corpus {str(self.path)!r} cannot be read: {error.strerror or error}")


def _text(path: Path, raw: Any) -> TextIOWrapper:  # Any: an open binary file
    binary: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
    return TextIOWrapper(binary, encoding="utf-8-sig", newline="")


def _json_lines(stream: TextIO) -> Iterator[Callable[[], Passage]]:
    for line in stream:
        if line.strip():
            yield partial(_of_json, line)


def _of_json(line: str) -> Passage:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, found {str(found)[:40]!r}")
    docid, text = _first(found, DOCID), _first(found, TEXT)
    if not isinstance(docid, str | int) or isinstance(docid, bool):
        raise ValueError(f"its docid is {docid!r}: expected a text or a number")
    return _sound(Passage(str(docid), text, found.get("title") or "", found.get("url"), metadata_of(found)))


def metadata_of(found: dict[str, Any]) -> Metadata:  # Any: JSON
    """Return what else an object of JSON says of its passage: texts, numbers and truth values."""
    own = found.get("metadata") if isinstance(found.get("metadata"), dict) else {}
    return plain({name: value for name, value in {**found, **(own or {})}.items() if name not in NAMED})


def _first(found: dict[str, Any], names: tuple[str, ...]) -> Any:  # Any: JSON
    for name in names:
        if name in found:
            return found[name]
    raise ValueError(f"it has no {names[0]!r} (nor {', '.join(map(repr, names[1:]))})")


def _dpr(stream: TextIO) -> Iterator[Callable[[], Passage]]:
    csv.field_size_limit(LONGEST_FIELD)
    rows = csv.reader(stream, delimiter="\t")
    if (heading := next(rows, [])) != HEADING:
        raise ValueError(f"the heading is {heading!r}: expected {HEADING!r}")
    for row in rows:
        yield partial(_of_row, row)


def _of_row(row: list[str]) -> Passage:
    if len(row) != len(HEADING):
        raise ValueError(f"a row of {len(row)} fields: expected id, text and title between tabs")
    docid, text, title = row
    return _sound(Passage(docid, text, title))


def _sound(passage: Passage) -> Passage:
    told = {"docid": passage.docid, "text": passage.text, "title": passage.title, "url": passage.url or ""}
    told |= {name: value for name, value in passage.metadata.items() if isinstance(value, str)}
    for name, value in told.items():
        if not isinstance(value, str):
            raise ValueError(f"its {name} is {value!r}: expected a text")
        if LONE.search(value):
            raise ValueError(f"its {name} holds half a character, which no file can hold: {value[:40]!r}")
    if len(passage.docid.splitlines()) > 1:  # pyserini's lists have a line for each
        raise ValueError(f"its docid {passage.docid!r} holds a line break")
    if not passage.docid or not passage.text.strip():
        raise ValueError(f"its {'text' if passage.docid else 'docid'} is empty")
    return passage
