"""Published data sets, written as NAME:FILE or NAME/PART:FILE, for example "gsm8k:test.jsonl".

A file is in its published format: JSON Lines, a JSON list, a JSON object that contains the list, Parquet, or CSV with
or without a header. Instead of a file, a repository of the Hugging Face hub at a commit, or a folder with a copy of
one, can be given; the library `datasets` (extra `eval`) loads its rows. Data is never executed: no pickle is opened,
and no repository's code is run.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from sottovoce.core.errors import UsageError, first_line, nearest
from sottovoce.core.text import shortened
from sottovoce.datasets import DATASETS, DataSet
from sottovoce.datasets.data_set import Row
from sottovoce.datasets.question_files import AskedRow, Enough, QuestionFile
from sottovoce.datasets.table_reader import (
    ENDINGS,
    MARK,
    Broken,
    DataFile,
    TextFile,
    Values,
    binary,
    json_of,
    listed,
    not_empty,
    parquet,
    read_text,
    split_csv,
    split_lines,
)
from sottovoce.datasets.table_reader import Row as Unread
from sottovoce.nodes.question import Question, check_question, content_of

WRITTEN = re.compile(r"([A-Za-z0-9_-]{2,})(?:/([^:/\\]+))?:(.+)", re.DOTALL)  # a single letter is a drive
DECOYS = 3
"""Number of worked solutions taken from the next rows, for dummy debaters."""
ID = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w./-]*))?")
COMMIT = re.compile(r"[0-9a-f]{40}")
FILES = (*ENDINGS, ".txt")


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


def parse_source(text: str) -> Source | None:
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
        raise UsageError(f"`kind=` is only for your own files; {known}")
    path = Path(source.where)
    is_copy = path.is_dir() and not (source.data.aliases_in or source.data.files)
    open_rows = read_hub if is_copy or is_on_hub(source.where) else read_published
    with open_rows(source.where, source.data, source.part) as file:
        rows, whole = _rows(file, source, dict(common or {}), enough or Enough())
        if not rows:
            raise UsageError(f"no row of {file.name} is a question of {source.name}; expected at least one")
        count = len(rows)
        for at, row in enumerate(rows):  # decoys are the solutions of the next rows; the first row follows the last
            others = [rows[(at + 1 + k) % count].question.get("solution") for k in range(min(DECOYS, count - 1))]
            if "decoys" not in row.question and (decoys := [solution for solution in others if solution]):
                row.question["decoys"] = decoys
        total = count if whole else None
        return QuestionFile(path, file.digest(), tuple(rows), total, data_set=source.name, noun=file.noun)


def _rows(file: DataFile, source: Source, common: Values, enough: Enough) -> tuple[list[AskedRow], bool]:
    """Return the rows, including rows that only serve as decoys, and whether these are all rows."""
    rows, ids, broken = list[AskedRow](), set[str](), Broken(file.name, file.noun)
    questions, behind = dict[Hashable, Question](), -1
    for at, (line, read) in enumerate(file.rows):
        with broken.at(line):
            published = Row(read(), source.part)
            if source.data.passes_over(published):
                continue
            row = _row(line, published, source, common)
            if first := _first_part(row.question, questions):
                _unite(first, row.question)
                continue
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
        place = f"{row.values['file']}: " if data.files and "file" in row.values else ""
        raise UsageError(f"{place}{error}; a row of {data.name} is {data.shape}") from error
    values = row.values
    own = next((values[name] for name in data.own_id if values.get(name) not in (None, "")), None)
    question = cast(Question, {"kind": data.kind, **fields, **common, **({} if own is None else {"id": str(own)})})
    check_question(question, None)
    return AskedRow(line, question, {name: values[name] for name in data.metadata if name in values})


def _first_part(question: Question, questions: dict[Hashable, Question]) -> Question | None:
    """Return the earlier part of the same question, under its published id.

    Some data sets have a row for each piece of evidence, or for each reference answer.
    """
    if (own := question.get("id")) is None:
        return None
    asked, documents, kind, target = content_of(question)
    first = questions.setdefault((own, asked, documents, None if kind == "text" else target), question)
    return None if first is question else first


def _unite(question: Question, part: Question) -> None:
    """Add to a question the right answers and gold passages of another of its rows."""
    answers = [
        answer for each in (question, part) if "target" in each for answer in (each["target"], *each.get("aliases", []))
    ]
    if aliases := [*dict.fromkeys(answers)][1:]:
        question["aliases"] = aliases
    if gold := [*dict.fromkeys(title for each in (question, part) for title in each.get("gold_passages", []))]:
        question["gold_passages"] = gold


def _different(id: str, known: set[str]) -> str:
    """Return the id, with a number appended if another question has it; some data sets repeat ids."""
    new_id, number = id, 1
    while new_id in known:
        number += 1
        new_id = f"{id}-{number}"
    known.add(new_id)
    return new_id


@contextmanager
def read_published(where: str | Path, data: DataSet, part: str = "") -> Iterator[DataFile]:
    """Open a file and yield its rows; a folder has a file for each row, or one of a part and one of answer aliases.

    Raises:
        UsageError: the file cannot be read, has another format, or contains no row.
    """
    path = Path(where)
    if data.aliases_in and path.is_dir():
        with _with_aliases(path, data, part) as found:
            yield found
        return
    if data.files and path.is_dir():
        yield _file_by_file(path, data)
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


def _split(text: TextFile, data: DataSet) -> tuple[str, Iterator[Unread]]:
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
        numbered = enumerate(text.lines(), start=1)
        return "line", ((number, partial(_cells, line, data)) for number, line in numbered if line.strip())
    header, rows = split_csv(text.lines(), text.name, data.columns)
    if header and not {*data.row} & {*header[1]}:
        raise UsageError(f"{text.name} has the columns {', '.join(map(repr, header[1]))}; expected {data.shape}")
    return "line", rows


def _is_one_object(first_line: str, key: str) -> bool:
    """Return True unless the first line is a complete object without the list that is expected under the key."""
    try:
        value = json.loads(first_line)
    except (ValueError, RecursionError):  # it goes on in the next lines, or is long
        return True
    return isinstance(value, dict) and isinstance(value.get(key), list)


def _cells(line: str, data: DataSet) -> Values:
    cells = [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
    if len(cells) != len(data.columns):
        raise UsageError(f"found {len(cells)} cells separated by tabs; expected {len(data.columns)}")
    return dict(zip(data.columns, cells, strict=True))


def _file_by_file(folder: Path, data: DataSet) -> DataFile:
    """Return the rows of files with one each, in the order of their paths; the digest covers paths and contents."""
    name, digest = f"{data.name} folder {str(folder)!r}", hashlib.sha256()

    def read(path: Path) -> Values:
        place = path.relative_to(folder).with_suffix("").as_posix()
        text = read_text(path, f"{data.name} file {str(path)!r}")
        digest.update(f"{place}\n{text}\n".encode())
        [(_, row)] = listed([json_of(text, place)])
        return {**row(), "file": place}

    rows = ((at, partial(read, path)) for at, path in enumerate(sorted(folder.glob(data.files)), start=1))
    found = not_empty(rows, f"{name} contains no {data.files}; expected files with {data.shape}")
    return DataFile(name, None, found, digest.hexdigest, "file")


@contextmanager
def _with_aliases(folder: Path, data: DataSet, part: str) -> Iterator[DataFile]:
    """Yield the rows of a folder's file, by default the first split's; the digest covers both files."""
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
    config, split = data.on_hub(part)
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
