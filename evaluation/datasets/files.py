"""The rows of a file of a data set, in the form in which it was published, whatever the file is called.

JSON Lines, a JSON list, a JSON object that holds the list, or CSV with a row of names or without. Data are read,
never run: no pickle is opened.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.evaluation.datasets.schema import DataSet
from sottovoce.evaluation.runs.rows import DataFile, Row, Values, json_of, read_text, split_csv, split_lines
from sottovoce.evaluation.views.printable import shortened


def read_published(path: Path, data: DataSet) -> DataFile:
    """Split a file into its rows.

    Raises:
        UsageError: it cannot be read, is in another form, or holds no row.
    """
    name = f"{data.name} file {str(path)!r}"
    text, digest = read_text(path, name)
    noun, rows = _split(text, name, data)
    if not rows:
        raise UsageError(f"{name} holds no row; expected {data.shape}")
    return DataFile(name, digest, None, rows, noun)


def _split(text: str, name: str, data: DataSet) -> tuple[str, list[Row]]:
    """What rows are counted by, and the rows."""
    begins = text.lstrip()[:1]
    if begins == "[" and not data.columns:
        return "row", listed(json_of(text, name))
    if begins == "{":
        found = _within(text, data)
        return ("line", split_lines(text)) if found is None else ("row", listed(found))
    if not data.is_csv and begins:
        raise UsageError(f"{name} is no JSON: it begins with {shortened(text, 40)!r}; expected {data.shape}")
    header, rows = split_csv(text, name, data.columns)
    if header and not {*data.row} & {*header[1]}:
        raise UsageError(f"{name} names {', '.join(map(repr, header[1]))}; expected {data.shape}")
    return "line", rows


def listed(found: list[Any]) -> list[Row]:  # Any: JSON
    """The rows of a list, counted from 1."""
    return [(number, partial(_object, each)) for number, each in enumerate(found, start=1)]


def _object(found: Any) -> Values:  # Any: JSON
    if not isinstance(found, dict):
        raise UsageError(f"found {type(found).__name__}; expected an object")
    return found


def _within(text: str, data: DataSet) -> list[Any] | None:  # Any: JSON
    """The list that one object holds; None where the text is no such object."""
    try:
        found = json.loads(text) if data.within else None
    except ValueError:  # several objects, or lines that are read, and told, one by one
        return None
    rows = found.get(data.within) if isinstance(found, dict) else None
    return rows if isinstance(rows, list) else None
