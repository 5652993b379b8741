"""Questions of a data set written as NAME:FILE or NAME/PART:FILE, for example "gsm8k:test.jsonl".

Instead of a file, a Hugging Face repository at a commit or a folder with a copy of one can be given.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sottovoce.core.errors import UsageError, nearest
from sottovoce.datasets import DATASETS, DataSet
from sottovoce.datasets.columns import Enough
from sottovoce.datasets.files import is_on_hub, read_hub, read_published
from sottovoce.datasets.question_files import AskedRow, QuestionFile
from sottovoce.datasets.schema import Row
from sottovoce.datasets.table_reader import Broken, DataFile, Values
from sottovoce.nodes.question import Question, check_question

WRITTEN = re.compile(r"([A-Za-z0-9_-]{2,})(?:/([^:/\\]+))?:(.+)", re.DOTALL)  # a single letter is a drive
DECOYS = 3
"""Number of worked solutions taken from the next rows, for dummy debaters."""


@dataclass(frozen=True)
class Source:
    """A data set, a part of it, and its location."""

    data: DataSet
    part: str
    where: str

    @property
    def name(self) -> str:
        """The name with its part, which ids begin with."""
        return f"{self.data.name}/{self.part}" if self.part else self.data.name


def source_of(text: str) -> Source | None:
    """Return the named data set; None if the text is the path of a file.

    Raises:
        UsageError: there is no such data set, or it has no such part.
    """
    if not (match := WRITTEN.fullmatch(text)) or Path(text).exists():
        return None
    name, part, where = match.groups(default="")
    if name not in DATASETS:
        raise UsageError(nearest("data set", name, DATASETS))
    DATASETS[name].check_part(part)
    return Source(DATASETS[name], part, where)


def read_source(
    source: Source, common: Mapping[str, object] | None = None, enough: Enough | None = None
) -> QuestionFile:
    """Read all rows, or enough, as questions; the fields of `common` are added to each and take precedence.

    Raises:
        UsageError: it cannot be read, or rows are broken; the message names the first and counts the others.
    """
    if "kind" in (common or {}):
        known = f"answers of {source.data.name} are of kind {source.data.kind!r}"
        raise UsageError(f"--kind is only for your own files; {known}")
    path = Path(source.where)
    with _opened(source) as file:
        found, whole = _rows(file, source, dict(common or {}), enough or Enough())
        if not (rows := _with_decoys(found)):
            raise UsageError(f"no row of {file.name} is a question of {source.name}; expected at least one")
        total = len(rows) if whole else None
        return QuestionFile(path, file.digest(), tuple(rows), total, data_set=source.name, noun=file.noun)


def _opened(source: Source) -> AbstractContextManager[DataFile]:
    is_copy = Path(source.where).is_dir() and not source.data.aliases_in
    if is_copy or is_on_hub(source.where):
        return read_hub(source.where, source.data, source.part)
    return read_published(Path(source.where), source.data, source.part)


def _rows(file: DataFile, source: Source, common: Values, enough: Enough) -> tuple[list[AskedRow], bool]:
    """Return the rows, with those that decoys come from, and whether these are all."""
    rows, ids, broken = list[AskedRow](), set[str](), Broken(file.name, file.noun)
    behind = -1
    for at, (line, read) in enumerate(file.rows):
        with broken.at(line):
            published = Row(read(), source.part)
            if source.data.passes_over(published):
                continue
            row = _row(line, published, source, common)
            row.question["id"] = _different(f"{source.name}/{row.question.get('id', at)}", ids)
            rows.append(row)
            behind += behind >= 0 or enough.after(row.fields)
            if behind == DECOYS:
                break
    broken.raise_first()
    return rows, behind < DECOYS


def _row(line: int, row: Row, source: Source, common: Values) -> AskedRow:
    data = source.data
    try:
        fields = data.read(row)
    except UsageError as error:
        raise UsageError(f"{error}; a row of {data.name} is {data.shape}") from error
    values = row.values
    own = next((values[name] for name in data.own_id if values.get(name) not in (None, "")), None)
    question = cast(Question, {"kind": data.kind, **fields, **common, **({} if own is None else {"id": str(own)})})
    check_question(question, None)
    return AskedRow(line, question, {name: values[name] for name in data.metadata if name in values})


def _different(id: str, known: set[str]) -> str:
    """Return the id, with a number appended if another row has it; some data sets repeat ids."""
    new_id, number = id, 1
    while new_id in known:
        number += 1
        new_id = f"{id}-{number}"
    known.add(new_id)
    return new_id


def _with_decoys(rows: list[AskedRow]) -> list[AskedRow]:
    """Add to each row the solutions of the rows after it, if any; the first row follows the last."""
    n = len(rows)
    for at, row in enumerate(rows):
        others = [rows[(at + 1 + k) % n].question.get("solution") for k in range(min(DECOYS, n - 1))]
        if "decoys" not in row.question and (decoys := [solution for solution in others if solution]):
            row.question["decoys"] = decoys
    return rows
