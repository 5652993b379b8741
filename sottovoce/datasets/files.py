"""Rows of a data set: of a file in its published format, or of the Hugging Face hub at a commit.

The formats are JSON Lines, a JSON list, a JSON object that contains the list, and CSV with or without a header. The
library `datasets` (extra `eval`) loads rows of the hub, or of a copy of a repository in a folder. Data is never
executed: no pickle is opened, and no repository's code is run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError, first_line
from sottovoce.core.text import shortened
from sottovoce.datasets.schema import DataSet
from sottovoce.datasets.table_reader import Broken, DataFile, Row, Values, json_of, read_text, split_csv, split_lines

ID = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]*))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt")


def read_published(path: Path, data: DataSet, part: str = "") -> DataFile:
    """Split a file into its rows; a folder contains the file of a part and a file of answer aliases.

    Raises:
        UsageError: the file cannot be read, has another format, or contains no row.
    """
    if data.aliases_in and path.is_dir():
        return _with_aliases(path, data, part)
    name = f"{data.name} file {str(path)!r}"
    text, digest = read_text(path, name)
    noun, rows = _split(text, name, data)
    if not rows:
        raise UsageError(f"{name} contains no row; expected {data.shape}")
    return DataFile(name, digest, None, rows, noun)


def _split(text: str, name: str, data: DataSet) -> tuple[str, list[Row]]:
    """Return the noun for counting rows ("line" or "row"), and the rows."""
    begins = text.lstrip()[:1]
    if begins == "[" and not data.columns:
        return "row", listed(json_of(text, name))
    if begins == "{":
        found = _within(text, data)
        return ("line", split_lines(text)) if found is None else ("row", listed(found))
    if not data.is_csv and begins:
        raise UsageError(f"{name} is not JSON: it begins with {shortened(text, 40)!r}; expected {data.shape}")
    if data.tabs:
        return "line", _split_tabs(text, data)
    header, rows = split_csv(text, name, data.columns)
    if header and not {*data.row} & {*header[1]}:
        raise UsageError(f"{name} has the columns {', '.join(map(repr, header[1]))}; expected {data.shape}")
    return "line", rows


def listed(items: list[JSONValue]) -> list[Row]:
    """Return the rows of a list, numbered from 1."""
    return [(number, partial(_object, item)) for number, item in enumerate(items, start=1)]


def _split_tabs(text: str, data: DataSet) -> list[Row]:
    lines = enumerate(text.split("\n"), start=1)
    return [(number, partial(_cells, line, data)) for number, line in lines if line.strip()]


def _cells(line: str, data: DataSet) -> Values:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != len(data.columns):
        raise UsageError(f"found {len(cells)} cells separated by tabs; expected {len(data.columns)}")
    return dict(zip(data.columns, cells, strict=True))


def _with_aliases(folder: Path, data: DataSet, part: str) -> DataFile:
    """Return the rows of a folder's file, by default that of the first split; the digest covers both files."""
    split = part if part in data.counts else next(iter(data.counts))
    file = read_published(folder / f"{split}.json", data)
    name = f"{data.name} file {str(folder / data.aliases_in)!r}"
    text, digest = read_text(folder / data.aliases_in, name)
    names, broken = dict[str, list[str]](), Broken(name)
    for line, read in split_lines(text):
        with broken.at(line):
            found = read()
            if not isinstance(found.get("aliases"), list):
                raise UsageError(f"found {', '.join(map(repr, found))}; expected Q_id and aliases")
            names[str(found.get("Q_id"))] = found["aliases"]
    broken.raise_first()

    def named(read: Callable[[], Values]) -> Values:
        values = read()
        return {**values, "answer_aliases": names.get(str(values.get("answer_id")), [])}

    both = hashlib.sha256(f"{file.digest} {digest}".encode()).hexdigest()
    rows: list[Row] = [(number, partial(named, read)) for number, read in file.rows]
    return replace(file, digest=both, rows=rows)


def _object(value: JSONValue) -> Values:
    if not isinstance(value, dict):
        raise UsageError(f"found {type(value).__name__}; expected an object")
    return value


def _within(text: str, data: DataSet) -> list[JSONValue] | None:
    """Return the list inside the one JSON object; None if the text is not such an object."""
    try:
        value = json.loads(text) if data.within else None
    except (ValueError, RecursionError):  # several objects, or lines that are read and reported one by one
        return None
    rows = value.get(data.within) if isinstance(value, dict) else None
    return rows if isinstance(rows, list) else None


def is_on_hub(where: str) -> bool:
    """Return whether `where` names a hub repository, pinned or not: owner/name, and not a local file or folder."""
    found = ID.fullmatch(where)
    return found is not None and (found[2] is not None or not (Path(where).exists() or where.endswith(FILES)))


def read_hub(where: str, data: DataSet, part: str) -> DataFile:
    """Return the rows of ID@COMMIT, or of a folder.

    Raises:
        UsageError: the id has no commit, a local folder has its name, or the data cannot be loaded or is empty.
    """
    name = f"{data.name} of {where!r}"
    path, commit = (where, None) if Path(where).is_dir() else _pinned(where)
    rows = _load(name, path, commit, *data.on_hub(part))
    if not rows:
        raise UsageError(f"{name} contains no row; expected {data.shape}")
    lines = "".join(json.dumps(row, sort_keys=True, default=str) + "\n" for row in rows)
    return DataFile(name, hashlib.sha256(lines.encode()).hexdigest(), None, listed(rows), "row")


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
