"""Rows of a data file, each with the line on which an editor shows it.

JSON Lines (.jsonl, .ndjson), one object a line, or CSV (.csv) with a row of names above; both in UTF-8.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.evaluation.views.printable import shortened
from sottovoce.regular import bytes_of

Values = dict[str, Any]  # Any: JSON; cells of CSV are texts
Row = tuple[int, Callable[[], Values]]
"""The line on which a row begins, from 1, and what reads it: a UsageError where it is broken."""
MARK = "\ufeff"
"""With which some editors begin a file in UTF-8."""
BINARY = {
    b"PK\x03\x04": "a ZIP archive, as Excel's workbooks are",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "a gzip archive",
    b"PAR1": "a Parquet table",
    b"SQLite format 3": "an SQLite database",
    b"%PDF-": "a PDF page",
}
ENDINGS = (".xlsx", ".xls", ".parquet", ".zip", ".gz", ".sqlite", ".pdf", ".arrow", ".ods")
"""Of files that are no texts."""
STDIN = Path("-")
"""In the place of a file: what is piped in, as JSON Lines."""
LONGEST = 400  # characters of what is wrong with a row, which may quote a document


@dataclass(frozen=True)
class DataFile:
    """What a file holds; its rows are split, and each is read when it is called."""

    name: str
    """With what it is for: "question file 'a.csv'"."""
    digest: str
    """sha256 of its bytes, in hexadecimal."""
    header: tuple[int, list[str]] | None
    """Of CSV: the line of the names, and the names."""
    rows: list[Row]
    noun: str = "line"
    """What its rows are counted by: lines, or the rows of a JSON list."""


class Broken:
    """What is wrong with rows of a file, so that the first is told and the others are counted."""

    def __init__(self, name: str, noun: str = "line") -> None:
        """`name` is the file's, as errors call it; `noun` what its rows are counted by."""
        self.name, self.noun = name, noun
        self._found: list[tuple[int, UsageError]] = []

    @contextmanager
    def at(self, line: int) -> Iterator[None]:
        """Keeps a UsageError as one of this line."""
        try:
            yield
        except UsageError as error:
            self._found.append((line, error))

    def tell(self) -> None:
        """Raise the first, if there is any.

        Raises:
            UsageError: with its line, and how many more there are.
        """
        if not self._found:
            return
        (line, error), *others = self._found
        more = f"; {len(others):,} more of its {self.noun}s cannot be asked either" if others else ""
        raise UsageError(f"{self.noun} {line} of {self.name}: {shortened(str(error), LONGEST)}{more}") from error


def read_rows(path: Path, what: str) -> DataFile:
    """Split a file into its rows; blank lines are passed over. `what` it is called in errors.

    Raises:
        UsageError: it cannot be read, is neither JSON Lines nor CSV, holds no row, or its CSV cannot be split.
    """
    name = f"{what} {str(path)!r}"
    if (form := ".jsonl" if path == STDIN else path.suffix.lower()) not in (".jsonl", ".ndjson", ".csv"):
        raise UsageError(f"{name} is neither JSON Lines nor CSV by its name; expected .jsonl or .csv")
    text, digest = read_text(path, name)
    if form == ".csv" and text.lstrip()[:2] in ('{"', "[{"):
        raise UsageError(f"{name} holds JSON, and not the CSV that its name says; rename it to .jsonl")
    header, rows = split_csv(text, name) if form == ".csv" else (None, split_lines(text))
    if not rows:
        raise UsageError(f"{name} {'is empty' if header is None else 'holds names and no row'}; expected rows")
    return DataFile(name, digest, header, rows)


def read_text(path: Path, name: str) -> tuple[str, str]:
    """The text of a file in UTF-8, or of stdin, and the sha256 of its bytes.

    Raises:
        UsageError: there is none, it cannot be read, or it is not UTF-8.
    """
    try:
        data = _piped(name) if path == STDIN else bytes_of(path)
        _check_text(data, path, name)
        return data.decode("utf-8").removeprefix(MARK), hashlib.sha256(data).hexdigest()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}, line {line}") from error


def _check_text(data: bytes, path: Path, name: str) -> None:
    """Refuse what its first bytes or its name call something else than a text."""
    for begins, what in BINARY.items():
        if data.startswith(begins):
            raise UsageError(f"{name} holds {what}; expected a text in UTF-8: export or unpack it first")
    if path.suffix.lower() in ENDINGS:
        raise UsageError(f"{name} ends in {path.suffix!r}, and holds something else; rename it by what it holds")


def _piped(name: str) -> bytes:
    """All of stdin; who types it is told how it ends."""
    if sys.stdin.isatty():
        print(f"reading {name} from the terminal; Ctrl-D ends it", file=sys.stderr)
    return sys.stdin.buffer.read()


def split_lines(text: str) -> list[Row]:
    """The rows of a text of JSON Lines."""
    # Not splitlines: a text may hold U+2028, at which that would split too.
    lines = enumerate(text.split("\n"), start=1)
    return [(number, partial(_object, line)) for number, line in lines if line.strip()]


def _object(line: str) -> Values:
    """The object of a line of JSON."""
    values = json_of(line, "the line")
    if not isinstance(values, dict):
        raise UsageError(f"found {type(values).__name__}; expected one JSON object a line")
    return values


def json_of(text: str, name: str) -> Any:  # Any: JSON
    """What a text of JSON holds.

    Raises:
        UsageError: it is none; `name` says what it is.
    """
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:  # its own words say "line 1", which would be taken for the file's
        raise UsageError(f"{name} is no JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON: {error}") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def split_csv(text: str, name: str, columns: Sequence[str] = ()) -> tuple[tuple[int, list[str]] | None, list[Row]]:
    """The names of a text of CSV, with their line, and its rows; `columns` are the names where no row holds them.

    Raises:
        UsageError: it cannot be split, or a name stands there twice.
    """
    found = [(line, cells) for line, cells in _cells(text, name) if any(cells)]
    if not found or columns:
        return None, [(number, partial(_named, columns, cells)) for number, cells in found]
    (line, names), *rows = found
    if twice := next((each for each in names if each and names.count(each) > 1), None):
        raise UsageError(f"line {line} of {name} names {twice!r} twice; expected each column to have its own name")
    return (line, names), [(number, partial(_named, names, cells)) for number, cells in rows]


def _cells(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of CSV, without the spaces around a cell; a row with line breaks in it has the number of its first line."""
    # Strict: otherwise a quote that is never closed swallows the rest of the file without a word.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            yield line, [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise UsageError(f"line {line} of {name} is no row of CSV: {error}; is a quote left open?") from error


def _named(names: Sequence[str], cells: list[str]) -> Values:
    """Cells by name; empty ones are left out, and a column without a name too (pandas writes its index so)."""
    if len(cells) != len(names):
        raise UsageError(f"found {len(cells)} cells; expected {len(names)}, as many as names; quote cells with commas")
    return {name: cell for name, cell in zip(names, cells, strict=True) if name and cell}
