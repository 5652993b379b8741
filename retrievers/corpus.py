"""Passages streamed from a file: JSON Lines, or the TSV of DPR's Wikipedia (`psgs_w100.tsv`), optionally as .gz.

A JSON object has the passage's name as `docid`, `id` or `_id`, its text as `text` or `contents`, and optionally
`title` and `url`: the names of pyserini, BEIR and DPR. Other strings, numbers and booleans are metadata, as are those
in an object `metadata` (BEIR's); other nested values are ignored. DPR's file has the heading
`id<TAB>text<TAB>title`; a text that contains quotes is quoted.
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

from sottovoce.core.errors import CorpusError
from sottovoce.core.files import opened
from sottovoce.retrievers.passage import Metadata, Passage, plain

DOCID, TEXT = ("docid", "id", "_id"), ("text", "contents")
NAMED = {*DOCID, *TEXT, "title", "url", "metadata"}
HEADING = ["id", "text", "title"]
LONE = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which JSON can contain."""
LONGEST_FIELD = 2**31 - 1  # characters; the default of csv is 131072


class Corpus:
    """A file of passages; each iteration reads it from the start."""

    def __init__(self, path: Path, *, skip_bad: bool = False) -> None:
        """Take the path of a file without reading it; `skip_bad` skips and counts bad passages such as empty texts.

        Raises:
            CorpusError: there is no such file, or its name does not end in .jsonl or .tsv (optionally with .gz).
        """
        readers: dict[str, Callable[[TextIO], Iterator[Callable[[], Passage]]]] = {".jsonl": _json_lines, ".tsv": _dpr}
        ending = Path(path.name.removesuffix(".gz")).suffix
        if ending not in readers:
            raise CorpusError(f"corpus {str(path)!r} is not a .jsonl or .tsv file (optionally with .gz)")
        self.path, self._read = path, readers[ending]
        try:
            state = path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        self.size = state.st_size
        """Size of the file in bytes."""
        self.identity = {"corpus": path.name, "bytes": state.st_size, "modified": state.st_mtime_ns}
        """Values that change when the file does."""
        self.identity |= {"skip_bad": True} if skip_bad else {}
        self.position = 0
        """Number of bytes read so far."""
        self._skip_bad = skip_bad
        self.skipped = 0
        """Number of passages skipped since the start."""
        self.first_skipped = ""
        """The first skipped passage, and the reason."""

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in order.

        Raises:
            CorpusError: the file or a passage in it cannot be read; the message has the passage's number.
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
        """Return a passage, or None if it is bad and skipped."""
        try:
            return read()
        except (ValueError, RecursionError) as error:
            if not self._skip_bad:
                hint = "; use --skip-bad to skip such passages"
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
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object, found {str(fields)[:40]!r}")
    docid, text = _first(fields, DOCID), _first(fields, TEXT)
    if not isinstance(docid, str | int) or isinstance(docid, bool):
        raise ValueError(f"its docid is {docid!r}: expected a string or a number")
    return _checked(Passage(str(docid), text, fields.get("title") or "", fields.get("url"), metadata_of(fields)))


def metadata_of(fields: dict[str, Any]) -> Metadata:  # Any: JSON
    """Return the metadata in a passage's JSON object: its other strings, numbers and booleans."""
    own = fields.get("metadata") if isinstance(fields.get("metadata"), dict) else {}
    return plain({name: value for name, value in {**fields, **(own or {})}.items() if name not in NAMED})


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> Any:  # Any: JSON
    for name in names:
        if name in fields:
            return fields[name]
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
    return _checked(Passage(docid, text, title))


def _checked(passage: Passage) -> Passage:
    texts = {"docid": passage.docid, "text": passage.text, "title": passage.title, "url": passage.url or ""}
    texts |= {name: value for name, value in passage.metadata.items() if isinstance(value, str)}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"its {name} is {value!r}: expected a string")
        if LONE.search(value):
            raise ValueError(f"its {name} contains a lone surrogate, which UTF-8 cannot encode: {value[:40]!r}")
    if len(passage.docid.splitlines()) > 1:  # pyserini lists docids one per line
        raise ValueError(f"its docid {passage.docid!r} contains a line break")
    if not passage.docid or not passage.text.strip():
        raise ValueError(f"its {'text' if passage.docid else 'docid'} is empty")
    return passage
