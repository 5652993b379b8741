"""Question files: each row is a question, and its columns are the fields of `Question`.

One line of a .jsonl file: {"question": "What is 14 + 3 * 5?", "target": 29, "subject": "sums"}. In a cell of CSV, a
list (choices, aliases, decoys, demonstrations, hints) is a JSON array, or texts separated by |; fields by agent
(documents, wordings, starting_views) are JSON. Other columns, such as `subject`, are metadata: no agent reads them, and
rows can be filtered by them. The id of a row without one is a digest of its contents that are asked.

A condition compares one field of a row with one value: subject=algebra, split!=train, level<=3.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import json
import math
import operator
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.text import counted
from sottovoce.datasets.facts import to_senders
from sottovoce.datasets.fields import Columns, check_names, column_option, named, question_from, renamed, with_fields
from sottovoce.datasets.table_reader import STDIN, Broken, DataFile, Values, read_rows
from sottovoce.nodes.question import Question, check_question, passages_of

WHAT = "question file"
CONDITION = re.compile(r"\s*([^=<>!]*[^=<>!\s])\s*(!=|<=|>=|==?|<|>)\s*(.*?)\s*", re.DOTALL)
SOLUTION = re.compile(r"\n#### *\S+\s*\Z")
"""The end of a worked solution of GSM8K."""
ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class AskedRow:
    """A row as a question."""

    line: int
    """The line on which it begins, from 1."""
    question: Question
    """Always with an id and a kind."""
    metadata: Values
    """Its other columns; no agent reads them."""

    @property
    def fields(self) -> Values:
        """All fields by which rows can be filtered."""
        return {**self.metadata, **self.question}


@dataclass(frozen=True)
class QuestionFile:
    """The rows of a file that are asked, in order."""

    path: Path
    digest: str
    """sha256 of the file's bytes, as far as they were read, in hexadecimal."""
    rows: tuple[AskedRow, ...]
    total: int | None
    """Number of rows in the file; None if it was not read to its end."""
    where: tuple[str, ...] = ()
    """The conditions that these rows meet."""
    order: str | None = None
    """The order of these rows, in words, if it is not the file's."""
    skipped: int = 0
    """Number of rows that meet the conditions and were skipped."""
    data_set: str | None = None
    """For a published dataset: its name and part."""
    noun: str = "line"
    """See `DataFile.noun`."""

    @property
    def name(self) -> str:
        """Its name in errors."""
        return f"{self.data_set} file {str(self.path)!r}" if self.data_set else f"{WHAT} {str(self.path)!r}"

    @property
    def taken(self) -> str:
        """A phrase for the rows and their file: "40 of 200 rows of a.csv with split=test"."""
        file = "stdin" if self.path == STDIN else self.path.name
        of = f"{self.data_set} ({file})" if self.data_set else file
        total, taken = self.total, "all" if len(self.rows) == self.total else f"{len(self.rows):,} of"
        if total is None:
            total, taken = len(self.rows), ""
        conditions = f" with {' and '.join(self.where)}" if self.where else ""
        order = f" {self.order}" if self.order else ""
        skipped = f" behind the first {self.skipped:,}" if self.skipped else ""
        return f"{taken} {counted(total, 'row')} of {of}{conditions}{order}{skipped}".strip()

    @property
    def metadata(self) -> dict[str, Values]:
        """Other columns of rows that have some, by the question's id."""
        return {row.question["id"]: row.metadata for row in self.rows if row.metadata}

    @property
    def questions(self) -> list[Question]:
        """The questions of the rows."""
        return [row.question for row in self.rows]

    def take(
        self, where: Sequence[str] = (), limit: int | None = None, shuffle: int | None = None, skip: int = 0
    ) -> QuestionFile:
        """Return the rows that meet all conditions of `where` (see `Condition`): `limit` of them, after `skip`.

        `shuffle` is a seed of Python's `random`. It shuffles the rows that meet the conditions first, as the authors of
        ReAct (seed 233) and of Du et al. (seed 0) shuffled theirs.

        Raises:
            UsageError: a condition is not valid, names a field that no row has, or no row is left.
        """
        fields = [*dict.fromkeys(name for row in self.rows for name in row.fields)]
        conditions, broken, rows = read_conditions(where, fields), Broken(self.name, self.noun), []
        for row in self.rows:
            with broken.at(row.line):
                rows += [row] if all(condition.is_met(row.fields) for condition in conditions) else []
        broken.raise_first()
        if not rows:
            raise UsageError(f"no row of {self.name} has {' and '.join(map(str, conditions))}; expected at least one")
        if shuffle is not None:
            random.Random(shuffle).shuffle(rows)
        if skip >= len(rows):
            raise UsageError(f"`skip=` is {skip:,}, and {self.name} has {counted(len(rows), 'such row')}; skip fewer")
        end = None if limit is None else skip + limit
        order = None if shuffle is None else f"shuffled by seed {shuffle}"
        return replace(self, rows=tuple(rows[skip:end]), where=tuple(map(str, conditions)), order=order, skipped=skip)

    def to_senders(self, agents: Sequence[str]) -> QuestionFile:
        """Return the rows with their documents dealt in turn to all agents but the last."""
        dealt = [to_senders(passages_of(row.question, None), agents) for row in self.rows]
        rows = zip(self.rows, dealt, strict=True)
        return replace(self, rows=tuple(replace(row, question={**row.question, "documents": own}) for row, own in rows))


def read_file(
    path: Path | str,
    common: Mapping[str, JSONValue] | None = None,
    enough: Enough | None = None,
    columns: Columns | None = None,
) -> QuestionFile:
    """Return the rows of a file, each checked as far as possible without a scheme's settings; all, or enough of them.

    Args:
        path: The file.
        common: Fields of rows that lack them.
        enough: Says when enough rows have been read; None reads all.
        columns: The columns of the file that have other names than their fields, by field.

    Raises:
        UsageError: the file cannot be read, or a row is broken or has the id of another row. The message quotes the
            first such row with its line, and counts the others.
    """
    with read_rows(Path(path), WHAT) as file:
        if file.header is not None:
            line, names = file.header
            broken = Broken(file.name)
            with broken.at(line):
                _check_columns(columns or {}, names)
                check_names(with_fields(names, columns or {}), columns)
            broken.raise_first()
        rows, whole = _checked_rows(file, dict(common or {}), enough or Enough(), columns or {})
        return QuestionFile(Path(path), file.digest(), rows, len(rows) if whole else None, noun=file.noun)


def _checked_rows(
    file: DataFile, common: Values, enough: Enough, columns: Columns
) -> tuple[tuple[AskedRow, ...], bool]:
    """Return the rows, and whether these are all."""
    rows: dict[str, AskedRow] = {}
    broken, whole, seen = Broken(file.name, file.noun), True, Values()
    for line, read in file.rows:
        with broken.at(line):
            seen |= (published := read())
            values = renamed(published, columns)
            row = _row(line, values, common, columns, cells=file.header is not None)
            if first := rows.get(row.question["id"]):
                if values.get("id") is None:
                    raise UsageError(
                        f"asks the same as line {first.line}, and has no id; drop one of them, or give both an id"
                    )
                raise UsageError(f"has the id {row.question['id']!r}, like line {first.line}; give each row its own")
            rows[row.question["id"]] = row
            if enough.after(row.fields):
                whole = next(file.rows, None) is None
                break
    if file.header is None and seen:
        _check_columns(columns, seen)
    broken.raise_first()
    return tuple(rows.values()), whole


def _check_columns(columns: Columns, known: Collection[str]) -> None:
    for field, column in columns.items():
        if column not in known:
            raise UsageError(f"{nearest('column', column, known)} ({column_option({field: column})})")


def _row(line: int, values: Values, common: Values, columns: Columns, *, cells: bool) -> AskedRow:
    if not cells:  # CSV names are in the header, and were checked there
        check_names(values, columns)
    question, metadata = question_from(values, common, cells=cells)
    try:
        check_question(question, None)
    except UsageError as error:
        taken = f"; it has no kind, and was recognized as {question['kind']!r}" if "target" in question else ""
        raise UsageError(f"{error}{'' if values.get('kind') else taken}") from error
    if solution := SOLUTION.search(question.get("target", "")):
        worked = f"target is a worked solution that ends with {solution[0].strip()!r}; expected the answer alone"
        raise UsageError(f"{worked}; read a file of GSM8K by `questions='gsm8k:FILE'`, without `columns=`")
    question["id"] = question.get("id") or named(question)
    return AskedRow(line, question, metadata)


@dataclass(frozen=True)
class Condition:
    """A comparison of one field with one value."""

    field: str
    sign: str
    value: str

    def is_met(self, fields: Mapping[str, JSONValue]) -> bool:
        """Return whether a row meets the condition; a row without the field meets only !=.

        Raises:
            UsageError: the condition compares by < or >, but the field is not a number.
        """
        cell = fields.get(self.field)
        if self.sign not in ORDERS:
            return (cell is not None and _equal(cell, self.value)) == (self.sign == "=")
        if cell is None:
            return False
        if (number := _number(cell)) is None:
            raise UsageError(f"{self.field} is {cell!r}; expected a number, as {self} compares numbers")
        return ORDERS[self.sign](number, float(self.value))

    def __str__(self) -> str:
        return f"{self.field}{self.sign}{self.value}"


def read_conditions(where: Sequence[str], known: Sequence[str] | None = None) -> list[Condition]:
    """Parse conditions on the fields `known`; None checks no names.

    Raises:
        UsageError: one is not a condition, is on another field, or compares by < or > with something that is not a
            number.
    """
    conditions = []
    for text in where:
        if not (match := CONDITION.fullmatch(text)):
            raise UsageError(f"`where=` is {text!r}; expected FIELD=VALUE, FIELD!=VALUE, or for numbers < <= > >=")
        condition = Condition(match[1], "=" if match[2] == "==" else match[2], match[3])
        if condition.sign in ORDERS and _number(condition.value) is None:
            raise UsageError(f"`where=` is {text!r}; expected a number after {condition.sign}")
        if known is not None and condition.field not in known:
            raise UsageError(f"{nearest('field', condition.field, list(known))} (`where=` {str(condition)!r})")
        conditions.append(condition)
    return conditions


class Enough:
    """A count of rows that meet conditions, which says when enough of a file has been read."""

    def __init__(self, where: Sequence[str] = (), rows: int | None = None) -> None:
        """Take the conditions, which are parsed before the file is read, and the count; None reads all rows."""
        self._conditions, self._left = read_conditions(where), rows
        self._unseen = {condition.field for condition in self._conditions}

    def after(self, fields: Mapping[str, JSONValue]) -> bool:
        """Return True after the last row that is needed; each condition's field must have occurred by then."""
        if self._left is None:
            return False
        self._unseen -= fields.keys()
        with suppress(UsageError):  # it is reported later, with its line
            self._left -= all(condition.is_met(fields) for condition in self._conditions)
        return self._left <= 0 and not self._unseen


def _equal(cell: JSONValue, value: str) -> bool:
    """Return whether a field equals a value: texts letter by letter, a JSON number in any spelling."""
    if isinstance(cell, str):
        return cell == value
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return json.dumps(cell, ensure_ascii=False) == value
    return _number(value) == cell


def _number(value: JSONValue) -> float | None:
    """Return the value of a finite number or of its text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
