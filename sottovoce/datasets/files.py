"""Rows of a data set: of a file in its published format, or of the Hugging Face hub at a commit.

The formats are JSON Lines, a JSON list, a JSON object that contains the list, Parquet, and CSV with or without a
header. The library `datasets` (extra `eval`) loads rows of the hub, or of a copy of a repository in a folder. Data is
never executed: no pickle is opened, and no repository's code is run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sottovoce.core.errors import UsageError, first_line
from sottovoce.core.text import shortened
from sottovoce.datasets.schema import DataSet
from sottovoce.datasets.table_reader import (
    ENDINGS,
    MARK,
    Broken,
    DataFile,
    Row,
    TextFile,
    Values,
    binary,
    listed,
    not_empty,
    parquet,
    split_csv,
    split_lines,
)

ID = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]*))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES = (*ENDINGS, ".txt")


@contextmanager
def read_published(path: Path, data: DataSet, part: str = "") -> Iterator[DataFile]:
    """Open a file and yield its rows; a folder contains the file of a part and a file of answer aliases.

    Raises:
        UsageError: the file cannot be read, has another format, or contains no row.
    """
    if data.aliases_in and path.is_dir():
        with _with_aliases(path, data, part) as found:
            yield found
        return
    name = f"{data.name} file {str(path)!r}"
    with binary(path, name) as file:
        if path.suffix.lower() == ".parquet":  # as the hub has them
            yield parquet(file, name)
            return
        text = TextFile(file, name)
        noun, rows = _split(text, data)
        rows = not_empty(rows, f"{name} contains no row; expected {data.shape}")
        yield DataFile(name, None, rows, text.digest, noun)


def _split(text: TextFile, data: DataSet) -> tuple[str, Iterator[Row]]:
    """Return the noun for counting rows ("line" or "row"), and the rows."""
    start = text.first.decode(errors="replace").removeprefix(MARK)
    begins = start.lstrip()[:1]
    if begins == "[" and not data.columns:
        return "row", listed(text.items())
    if begins == "{" and data.within and _is_one_object(start, data.within):
        return "row", listed(text.items(data.within))
    if begins == "{" or not (begins or data.is_csv):
        return "line", split_lines(text.lines())
    if not data.is_csv:
        raise UsageError(f"{text.name} is not JSON: it begins with {shortened(start, 40)!r}; expected {data.shape}")
    if data.tabs:
        return "line", _split_tabs(text.lines(), data)
    header, rows = split_csv(text.lines(), text.name, data.columns)
    if header and not {*data.row} & {*header[1]}:
        raise UsageError(f"{text.name} has the columns {', '.join(map(repr, header[1]))}; expected {data.shape}")
    return "line", rows


def _is_one_object(first_line: str, key: str) -> bool:
    """Return True unless the first line is an object of its own, without the list that is expected under the key."""
    try:
        value = json.loads(first_line)
    except (ValueError, RecursionError):  # it goes on in the next lines, or is long
        return True
    return isinstance(value, dict) and isinstance(value.get(key), list)


def _split_tabs(lines: Iterator[str], data: DataSet) -> Iterator[Row]:
    return ((number, partial(_cells, line, data)) for number, line in enumerate(lines, start=1) if line.strip())


def _cells(line: str, data: DataSet) -> Values:
    cells = [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
    if len(cells) != len(data.columns):
        raise UsageError(f"found {len(cells)} cells separated by tabs; expected {len(data.columns)}")
    return dict(zip(data.columns, cells, strict=True))


@contextmanager
def _with_aliases(folder: Path, data: DataSet, part: str) -> Iterator[DataFile]:
    """Yield the rows of a folder's file, by default that of the first split; the digest covers both files."""
    split = part if part in data.counts else next(iter(data.counts))
    name = f"{data.name} file {str(folder / data.aliases_in)!r}"
    names, broken = dict[str, list[str]](), Broken(name)
    with binary(folder / data.aliases_in, name) as file:
        aliases = TextFile(file, name)
        for line, read in split_lines(aliases.lines()):
            with broken.at(line):
                found = read()
                if not isinstance(found.get("aliases"), list):
                    raise UsageError(f"found {', '.join(map(repr, found))}; expected Q_id and aliases")
                names[str(found.get("Q_id"))] = found["aliases"]
    broken.raise_first()

    def named(read: Callable[[], Values]) -> Values:
        values = read()
        return {**values, "answer_aliases": names.get(str(values.get("answer_id")), [])}

    with read_published(folder / f"{split}.json", data) as own:
        rows = ((number, partial(named, read)) for number, read in own.rows)
        both = lambda: hashlib.sha256(f"{own.digest()} {aliases.digest()}".encode()).hexdigest()  # noqa: E731
        yield replace(own, rows=rows, digest=both)


def is_on_hub(where: str) -> bool:
    """Return whether `where` names a hub repository, pinned or not: owner/name, and not a local file or folder."""
    found = ID.fullmatch(where)
    return found is not None and (found[2] is not None or not (Path(where).exists() or where.endswith(FILES)))


@contextmanager
def read_hub(where: str, data: DataSet, part: str) -> Iterator[DataFile]:
    """Yield the rows of ID@COMMIT, or of a folder.

    Raises:
        UsageError: the id has no commit, a local folder has its name, or the data cannot be loaded or is empty.
    """
    name = f"{data.name} of {where!r}"
    path, commit = (where, None) if Path(where).is_dir() else _pinned(where)
    rows = _load(name, path, commit, *data.on_hub(part))
    if not rows:
        raise UsageError(f"{name} contains no row; expected {data.shape}")
    lines = "".join(json.dumps(row, sort_keys=True, default=str) + "\n" for row in rows)
    yield DataFile(name, None, listed(rows), hashlib.sha256(lines.encode()).hexdigest, "row")


def _pinned(where: str) -> tuple[str, str]:
    """Return a repository's id and commit; a commit is required because branches change."""
    found = ID.fullmatch(where)
    if not found or not COMMIT.fullmatch(found[2] or ""):
        id = found[1] if found else where
        raise UsageError(
            f"{where!r} is not a file and names no commit on the hub; expected a file, or {id}@COMMIT "
            "with the 40 hexadecimal digits that the hub shows under 'Files and versions', 'History'"
        )
    if Path(found[1]).exists():
        raise UsageError(f"the local folder {found[1]!r} would be read instead of the hub's; run in another directory")
    return found[1], found[2]


def _load(name: str, path: str, commit: str | None, config: str | None, split: str) -> list[Values]:
    try:
        import datasets
        from datasets.exceptions import DatasetsError
    except ImportError as error:
        raise UsageError(f"{name} needs the library 'datasets': pip install 'sottovoce[eval]'") from error
    datasets.disable_progress_bars()
    try:
        rows: list[Values] = datasets.load_dataset(path, config, split=split, revision=commit).to_list()
    except (DatasetsError, OSError, ValueError) as error:
        asked = f"config {config!r}, split {split!r}" if config else f"split {split!r}"
        raise UsageError(f"{name} ({asked}) cannot be loaded: {first_line(error)}") from error
    return rows
