"""Rows of a data set on the Hugging Face hub at a commit, or of a copy of such a repository in a folder.

The library `datasets` (extra `eval`) loads them. It reads data files only and never runs a repository's code.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from sottovoce.core.errors import UsageError, first_line
from sottovoce.datasets.files import listed
from sottovoce.datasets.schema import DataSet
from sottovoce.datasets.table_reader import DataFile, Values

ID = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]*))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt")


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
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str).encode() + b"\n")
    return DataFile(name, digest.hexdigest(), None, listed(rows), "row")


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
