"""Files of questions, and what is said of broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.datasets.question_files import read_questions

SUMS = [
    {"question": "1 + 1?", "target": 2, "subject": "sums", "level": 1},
    {"question": "2 * 3?", "target": 6.0, "subject": "products", "level": 2, "id": 7},
    {"question": "2 + 3?", "subject": "sums", "level": 3, "kind": "text"},
]


def lines(folder: Path, *rows: Any, name: str = "q.jsonl") -> Path:
    """A file of rows, each an object or a line as it stands."""
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / name).write_text(f"{text}\n", encoding="utf-8")
    return folder / name


def refused(path: Path, **given: Any) -> str:
    """What is said of a file, on one line."""
    with pytest.raises(UsageError) as error:
        read_questions(path, **given)
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(path), path.name)
