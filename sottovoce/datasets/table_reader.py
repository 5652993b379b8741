"""Table reader: rows of a data file, one after another, each with its line number in an editor.

JSON Lines (.jsonl, .ndjson), one object a line; a JSON list (.json); CSV (.csv, .tsv) with a header row, separated by
commas, semicolons or tabs; or Parquet (.parquet). Texts are UTF-8, or UTF-16 with its mark, as Excel writes it.
Only as many rows are read as are asked for, but a JSON list as a whole; no line is longer than LONGEST_LINE.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import LONGEST_LINE
from sottovoce.core.errors import UsageError, first_line
from sottovoce.core.files import opened
from sottovoce.core.text import amount, counted, shortened

Values = JSON
Row = tuple[int, Callable[[], Values]]
"""The line on which a row begins, from 1, and a function that parses it; a UsageError if it is broken."""
MARK = "\ufeff"
"""The byte order mark, with which some editors begin a UTF-8 file."""
STDIN = Path("-")
"""Instead of a file: stdin, as JSON Lines."""
LARGEST_LIST = 2**30
"""Bytes of a JSON list, which is read as a whole and takes several times as much memory."""
MOST_COLUMNS = 10_000
"""Names of a CSV header, or keys of a row: messages list them, and look for similar ones."""
AT_ONCE = 4  # rows of Parquet; more of them are not read faster than they are parsed
LONGEST = 400  # characters of a row's error, which may quote a document
ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
SIGNATURES = {
    b"PK\x03\x04": "a ZIP archive, as workbooks of Excel are; save the sheet as CSV UTF-8",
    b"\x1f\x8b": "compressed by gzip; unpack it with gunzip",
    b"PAR1": "Parquet; let its name end in .parquet",
}
"""What other files are, and how to convert them, by their first bytes."""
CONVERT = "convert it, such as by iconv -f {} -t UTF-8 FILE > NEW"
SEPARATORS = ",;\t"


@dataclass
class DataFile:
    """A file that is read row by row; each row is a function that parses it."""

    name: str
    """The file with its purpose: "question file 'a.csv'"."""
    header: tuple[int, list[str]] | None
    """For CSV: the line of the header, and its names."""
    rows: Iterator[Row]
    """Each is read once."""
    digest: Callable[[], str]
    """Returns the sha256 of the bytes that were read, in hexadecimal: all of them, behind the last row."""
    noun: str = "line"
    """The word for a row in errors: a line, or a row of a JSON list."""


class TextFile:
    """An open text file, read once, line by line or as a whole, and the digest of the bytes that were read."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Take a file at its beginning, and look at its first line; stdin cannot go back.

        Raises:
            UsageError: the file is of another kind by its first bytes.
        """
        self.name, self._file, self._hash = name, file, hashlib.sha256()
        self.digest = self._hash.hexdigest
        """Returns the sha256 of what was read, in hexadecimal."""
        self.first = file.readline(LONGEST_LINE + 1)
        """The first line, or the beginning of a long one."""
        for signature, what in SIGNATURES.items():
            if self.first.startswith(signature):
                raise UsageError(f"{name} is {what}")
        if self.first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            try:
                self._file = io.BytesIO((self.first + file.read()).decode("utf-16").encode())
            except UnicodeError as error:
                raise UsageError(f"{name} is damaged UTF-16: {error}; save it as UTF-8") from error
            self.first = self._file.readline(LONGEST_LINE + 1)
        elif b"\0" in self.first[:2]:
            order = "BE" if self.first[0] == 0 else "LE"
            raise UsageError(f"{name} is UTF-16 without a byte order mark; {CONVERT.format('UTF-16' + order)}")

    def lines(self) -> Iterator[str]:
        """Yield the lines with their ends, decoded one by one.

        Raises:
            UsageError: a line is longer than LONGEST_LINE, or is not UTF-8.
        """
        line, number, read = self.first, 1, 0
        while line:
            where = f"line {number} of {self.name}"
            if len(line) > LONGEST_LINE:
                raise UsageError(f"{where} is longer than {amount(LONGEST_LINE)}; expected one row per line")
            self._hash.update(line)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                at = f"{error.reason} at byte {read + error.start}, line {number}"
                raise UsageError(f"{self.name} is not UTF-8: {at}; {CONVERT.format('WINDOWS-1252')}") from error
            yield text.removeprefix(MARK) if number == 1 else text
            line, number, read = self._file.readline(LONGEST_LINE + 1), number + 1, read + len(line)

    def items(self, within: str = "") -> list[JSONValue]:
        """Return the items of the file's one JSON list; `within` is its key, if it is within an object.

        Raises:
            UsageError: the file is not JSON, or larger than LARGEST_LIST.
        """
        if self._file.seekable():
            if self._file.seek(0, io.SEEK_END) > LARGEST_LIST:
                most = amount(LARGEST_LIST)
                raise UsageError(f"{self.name} is one JSON value of more than {most}; use JSON Lines for large files")
            self._file.seek(len(self.first))
        data = self.first + self._file.read()
        self._hash.update(data)
        found = json_of(data, self.name)
        found = found.get(within) if within and isinstance(found, dict) else found
        return found if isinstance(found, list) else []


class Broken:
    """A collector of errors in a file's rows; it raises the first and counts the others."""

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


@contextmanager
def read_rows(path: Path, purpose: str) -> Iterator[DataFile]:
    """Open a file and yield its rows, without blank lines; `purpose` is the file's purpose in errors.

    Raises:
        UsageError: it cannot be read, its format is unknown, it has no row, or its CSV cannot be split.
    """
    name = f"{purpose} {str(path)!r}"
    if (form := ".jsonl" if path == STDIN else path.suffix.lower()) not in ENDINGS:
        expected = f"{', '.join(ENDINGS)}; save a workbook as CSV UTF-8"
        raise UsageError(f"{name} has no known file ending; expected {expected}")
    with binary(path, name) as file:
        if form == ".parquet":
            yield parquet(file, name)
            return
        text = TextFile(file, name)
        header, noun, rows, lacks = None, "line", split_lines(text.lines()), "is empty; expected rows"
        if form == ".json":
            noun, rows, lacks = "row", listed(text.items()), "contains no list of rows; expected one JSON list"
        elif form in (".csv", ".tsv"):
            header, rows = split_csv(text.lines(), name)
            lacks = "has a header and no row; expected rows" if header else lacks
        yield DataFile(name, header, not_empty(rows, f"{name} {lacks}"), text.digest, noun)


@contextmanager
def binary(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file, or stdin, for reading bytes; at a terminal, say how to end it.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    try:
        if path != STDIN:
            with opened(path) as file:
                yield file
            return
        if sys.stdin.isatty():
            print(f"reading {name} from the terminal; Ctrl-D ends it", file=sys.stderr)
        # Another program may have put a text in its place, which has no bytes.
        yield getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from error


def not_empty(rows: Iterator[Row], problem: str) -> Iterator[Row]:
    """Return the rows; a UsageError if there is none."""
    first = next(rows, None)
    if first is None:
        raise UsageError(problem)
    return chain([first], rows)


def read_text(path: Path, name: str) -> str:
    """Return the text of a file, or of stdin.

    Raises:
        UsageError: there is no such file, it cannot be read, or it is not UTF-8.
    """
    with binary(path, name) as file:
        return "".join(TextFile(file, name).lines())


def split_lines(lines: Iterable[str]) -> Iterator[Row]:
    """Yield the rows of JSON Lines."""
    return ((n, partial(_object, line.rstrip("\r\n"))) for n, line in enumerate(lines, start=1) if line.strip())


def listed(values: Iterable[JSONValue]) -> Iterator[Row]:
    """Yield the rows of a list, numbered from 1."""
    return ((number, partial(_item, item)) for number, item in enumerate(values, start=1))


def _item(value: JSONValue) -> Values:
    if not isinstance(value, dict):
        raise UsageError(f"found {type(value).__name__}; expected one JSON object")
    _check_width(len(value))
    return value


def _check_width(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise UsageError(f"found {columns:,} columns; expected at most {MOST_COLUMNS:,}")


def parquet(file: BinaryIO, name: str) -> DataFile:
    """Return the rows of a Parquet file; values that JSON does not have become texts.

    Raises:
        UsageError: pyarrow is not installed, the file is damaged or has no row, or a row is longer than LONGEST_LINE.
    """
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise UsageError(f"{name} needs the library 'pyarrow': pip install 'sottovoce[eval]'") from error
    digest, too_long = hashlib.sha256(), f"{name} has a row longer than {amount(LONGEST_LINE)}; expected shorter ones"

    def values() -> Iterator[JSONValue]:
        try:
            for batch in ParquetFile(file).iter_batches(batch_size=AT_ONCE):  # a small file may become any size
                if batch.nbytes > AT_ONCE * LONGEST_LINE:
                    raise UsageError(too_long)
                for row in batch.to_pylist():
                    if len(line := json.dumps(row, default=str)) > LONGEST_LINE:
                        raise UsageError(too_long)
                    digest.update(line.encode())
                    yield json.loads(line)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise UsageError(f"{name} is not a Parquet file: {first_line(error)}") from error

    return DataFile(name, None, not_empty(listed(values()), f"{name} is empty; expected rows"), digest.hexdigest, "row")


def _object(line: str) -> Values:
    """Parse a line as a JSON object."""
    if line.lstrip().startswith("["):
        raise UsageError("found a list; expected one JSON object per line; a file of one list ends in .json")
    return _item(json_of(line, "the line"))


def json_of(text: str | bytes, name: str) -> JSONValue:
    """Parse JSON; a UsageError if the text is not JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:  # its own message says "line 1", which could be read as the file's
        raise UsageError(f"{name} is not JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def split_csv(
    lines: Iterator[str], name: str, columns: Sequence[str] = ()
) -> tuple[tuple[int, list[str]] | None, Iterator[Row]]:
    """Split CSV into its header (its line and its names) and its rows; `columns` are the names if it has no header.

    The separator is read from the header, or from a line `sep=;` before it (written by Excel).

    Raises:
        UsageError: it cannot be split, or a name occurs twice.
    """
    first, before = next(lines, ""), 0
    while first.isspace():
        first, before = next(lines, ""), before + 1
    separator = "," if columns else max(SEPARATORS, key=first.count)  # surer than csv.Sniffer, of a single line
    if (told := first.strip('\r\n "')).lower()[:-1] == "sep=":
        separator, first, before = told[-1], next(lines, ""), before + 1
    if first.lstrip()[:2] in ('{"', "[{"):
        raise UsageError(f"{name} contains JSON, not CSV as its name says; rename it to .jsonl or .json")
    rows = ((n + before, cells) for n, cells in _cells(chain([first], lines), name, separator))
    rows_of_cells = ((line, cells) for line, cells in rows if any(cells))
    if columns:
        return None, ((line, partial(_named, columns, cells, separator)) for line, cells in rows_of_cells)
    line, names = next(rows_of_cells, (0, list[str]()))
    with (broken := Broken(name)).at(line):
        _check_width(len(names))
    broken.raise_first()
    if twice := next((each for each in names if each and names.count(each) > 1), None):
        raise UsageError(f"line {line} of {name} names {twice!r} twice; expected each column to have its own name")
    header = (line, names) if names else None
    return header, ((line, partial(_named, names, cells, separator)) for line, cells in rows_of_cells)


def _cells(lines: Iterable[str], name: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of CSV, cells stripped of spaces; a row with line breaks has the number of its first line."""
    csv.field_size_limit(LONGEST_LINE)  # its default is 131,072 characters
    # Some programs end lines by a carriage return alone. Strict: otherwise an unclosed quote swallows the rest.
    parts = (part for line in lines for part in io.StringIO(line, newline=""))
    reader = csv.reader(parts, strict=True, skipinitialspace=True, delimiter=separator)
    while True:
        line = reader.line_num + 1
        try:
            yield line, [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise UsageError(f"line {line} of {name} is not a CSV row: {error}; is a quote left open?") from error


def _named(names: Sequence[str], cells: list[str], separator: str) -> Values:
    """Return the cells by name, without empty ones and unnamed columns (pandas writes its index in one)."""
    if len(cells) != len(names):
        found = f"found {counted(len(cells), 'cell')}; expected {len(names)}, one per name"
        raise UsageError(f"{found}, separated by {separator!r}; quote cells that contain the separator")
    return {name: cell for name, cell in zip(names, cells, strict=True) if name and cell}
