"""Table reader: rows of a data file, each with its line number in an editor.

JSON Lines (.jsonl, .ndjson), one object a line, or CSV (.csv) with a header row; both in UTF-8.
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

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.core.files import bytes_of
from sottovoce.core.text import shortened

Values = JSON
Row = tuple[int, Callable[[], Values]]
"""The line on which a row begins, from 1, and a function that parses it; a UsageError if it is broken."""
MARK = "\ufeff"
"""The byte order mark, with which some editors begin a UTF-8 file."""
STDIN = Path("-")
"""Instead of a file: stdin, as JSON Lines."""
LONGEST = 400  # characters of a row's error, which may quote a document


@dataclass(frozen=True)
class DataFile:
    """A file split into rows, each of which is parsed when it is called."""

    name: str
    """The file with its purpose: "question file 'a.csv'"."""
    digest: str
    """sha256 of its bytes, in hexadecimal."""
    header: tuple[int, list[str]] | None
    """For CSV: the line of the header, and its names."""
    rows: list[Row]
    noun: str = "line"
    """The word for a row in errors: a line, or a row of a JSON list."""


class Broken:
    """A collector of the errors of a file's rows, of which it raises the first and counts the others."""

    def __init__(self, name: str, noun: str = "line") -> None:
        """Take the file's name in errors, and the word for a row."""
        self.name, self.noun = name, noun
        self._errors: list[tuple[int, UsageError]] = []

    @contextmanager
    def at(self, line: int) -> Iterator[None]:
        """Collect a UsageError as one of this line."""
        try:
            yield
        except UsageError as error:
            self._errors.append((line, error))

    def raise_first(self) -> None:
        """Raise the first error with its line and the number of further ones, if there is one."""
        if not self._errors:
            return
        (line, error), *others = self._errors
        more = f"; {len(others):,} more of its {self.noun}s cannot be asked either" if others else ""
        raise UsageError(f"{self.noun} {line} of {self.name}: {shortened(str(error), LONGEST)}{more}") from error


def read_rows(path: Path, purpose: str) -> DataFile:
    """Split a file into its rows, without blank lines; `purpose` is the file's purpose in errors.

    Raises:
        UsageError: it cannot be read, is neither JSON Lines nor CSV, has no row, or its CSV cannot be split.
    """
    name = f"{purpose} {str(path)!r}"
    if (form := ".jsonl" if path == STDIN else path.suffix.lower()) not in (".jsonl", ".ndjson", ".csv"):
        raise UsageError(f"{name} is neither JSON Lines nor CSV by its name; expected .jsonl or .csv")
    text, digest = read_text(path, name)
    if form == ".csv" and text.lstrip()[:2] in ('{"', "[{"):
        raise UsageError(f"{name} contains JSON, not CSV as its name says; rename it to .jsonl")
    header, rows = split_csv(text, name) if form == ".csv" else (None, split_lines(text))
    if not rows:
        raise UsageError(f"{name} {'is empty' if header is None else 'has a header and no row'}; expected rows")
    return DataFile(name, digest, header, rows)


def read_text(path: Path, name: str) -> tuple[str, str]:
    """Return the text of a UTF-8 file, or of stdin, and the sha256 of its bytes.

    Raises:
        UsageError: there is no such file, it cannot be read, or it is not UTF-8.
    """
    try:
        data = _read_stdin(name) if path == STDIN else bytes_of(path)
        return data.decode("utf-8").removeprefix(MARK), hashlib.sha256(data).hexdigest()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}, line {line}") from error


def _read_stdin(name: str) -> bytes:
    """Return all of stdin; at a terminal, say how to end it."""
    if sys.stdin.isatty():
        print(f"reading {name} from the terminal; Ctrl-D ends it", file=sys.stderr)
    return sys.stdin.buffer.read()


def split_lines(text: str) -> list[Row]:
    """Split JSON Lines into rows."""
    # Not splitlines: that also splits at U+2028, which a text may contain.
    lines = enumerate(text.split("\n"), start=1)
    return [(number, partial(_object, line)) for number, line in lines if line.strip()]


def _object(line: str) -> Values:
    """Parse a line as a JSON object."""
    values = json_of(line, "the line")
    if not isinstance(values, dict):
        raise UsageError(f"found {type(values).__name__}; expected one JSON object per line")
    return values


def json_of(text: str, name: str) -> JSONValue:
    """Parse JSON; a UsageError if the text is not JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:  # its own message says "line 1", which could be read as the file's
        raise UsageError(f"{name} is not JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def split_csv(text: str, name: str, columns: Sequence[str] = ()) -> tuple[tuple[int, list[str]] | None, list[Row]]:
    """Split CSV into its header (its line and its names) and its rows; `columns` are the names if it has no header.

    Raises:
        UsageError: it cannot be split, or a name occurs twice.
    """
    rows_of_cells = [(line, cells) for line, cells in _cells(text, name) if any(cells)]
    if not rows_of_cells or columns:
        return None, [(number, partial(_named, columns, cells)) for number, cells in rows_of_cells]
    (line, names), *rows = rows_of_cells
    if twice := next((each for each in names if each and names.count(each) > 1), None):
        raise UsageError(f"line {line} of {name} names {twice!r} twice; expected each column to have its own name")
    return (line, names), [(number, partial(_named, names, cells)) for number, cells in rows]


def _cells(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of CSV, cells stripped of spaces; a row with line breaks has the number of its first line."""
    # Strict: otherwise an unclosed quote silently swallows the rest of the file.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            yield line, [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise UsageError(f"line {line} of {name} is not a CSV row: {error}; is a quote left open?") from error


def _named(names: Sequence[str], cells: list[str]) -> Values:
    """Return the cells by name, without empty ones and unnamed columns (pandas writes its index in one)."""
    if len(cells) != len(names):
        raise UsageError(f"found {len(cells)} cells; expected {len(names)}, one per name; quote cells with commas")
    return {name: cell for name, cell in zip(names, cells, strict=True) if name and cell}
