"""Questions of a file: rows, what is wrong with them, and conditions on them."""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.bounds import LONGEST_LINE
from sottovoce.core.errors import UsageError
from sottovoce.datasets.question_files import Enough, read_file
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.datasets.table_reader import MOST_COLUMNS
from sottovoce.nodes.question import question_id

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


def refused(path: Path, where: Sequence[str] = ()) -> str:
    """What is said of a file, on one line."""
    with pytest.raises(UsageError) as error:
        read_file(path).take(where)
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(path), path.name)


def test_each_line_is_a_question_and_other_columns_stay_apart(tmp_path: Path) -> None:
    file = read_file(lines(tmp_path, SUMS[0], "", SUMS[1], "  ", SUMS[2]))
    assert file.questions == [
        {"id": question_id({"question": "1 + 1?"}), "kind": "number", "question": "1 + 1?", "target": "2"},
        {"id": "7", "kind": "number", "question": "2 * 3?", "target": "6.0"},
        {"id": question_id({"question": "2 + 3?"}), "kind": "text", "question": "2 + 3?"},
    ]
    assert [row.line for row in file.rows] == [1, 3, 5]
    assert file.metadata["7"] == {"subject": "products", "level": 2}
    assert file.digest == hashlib.sha256((tmp_path / "q.jsonl").read_bytes()).hexdigest()


def test_a_line_of_json_ends_at_line_breaks_alone_and_a_mark_of_utf_8_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_bytes('\ufeff{"question": "a\u2028b?"}\r\n{"question": "c?"}'.encode())
    assert [each["question"] for each in read_file(tmp_path / "q.jsonl").questions] == ["a\u2028b?", "c?"]


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    rows = [
        {
            "question": 'Which, "of\nthese"?', "kind": "option", "target": "B",
            "choices": ["1|2", "3"], "documents": {"agent_1": ["a", {"text": "b", "title": "t"}]},
        },
        {"question": "And?", "kind": "label", "target": "no", "choices": ["yes", "no"], "hints": ["mind", "this"]},
        {"question": "Sets?", "kind": "text", "choices": ["{1}", "{2}"]},
    ]  # fmt: skip
    text = (
        "\ufeffquestion, kind,target,choices,documents,hints\r\n"
        '"Which, ""of\nthese""?",option, B ,"[""1|2"", ""3""]",'
        '"{""agent_1"": [""a"", {""text"": ""b"", ""title"": ""t""}]}",\r\n'
        "\r\nAnd?,label,no,yes | no,,mind|this\r\nSets?,text,,{1}|{2},,\r\n"
    )
    (tmp_path / "q.csv").write_bytes(text.encode())

    read = read_file(tmp_path / "q.csv")

    assert read.questions == read_file(lines(tmp_path, *rows)).questions
    assert [row.line for row in read.rows] == [2, 5, 6]


def test_the_index_that_pandas_writes_is_no_column(tmp_path: Path) -> None:
    assert read_file(lines(tmp_path, ",question,level", "0,1 + 1?,3", name="q.csv")).rows[0].metadata == {"level": "3"}


@pytest.mark.parametrize(
    ("target", "kind", "read"),
    [
        (-1e-7, "number", "-1e-07"),
        (True, "yes_no", "yes"),
        ("TRUE", "yes_no", "yes"),
        (True, "text", "true"),
        (3, "option", "3"),
    ],
)
def test_a_target_of_json_is_read_as_text(tmp_path: Path, target: Any, kind: str, read: str) -> None:
    row = {"question": "?", "target": target, "kind": kind, "choices": [1, 3]}
    assert read_file(lines(tmp_path, row)).questions[0]["target"] == read


def test_an_id_is_made_of_what_is_asked_and_not_of_what_is_right(tmp_path: Path) -> None:
    asked = [{"question": "Which?", "choices": [one, "z"]} for one in ("a", "b")]
    known = [{**each, "target": "z", "level": 1, "solution": "z it is."} for each in asked]
    ids = [
        each["id"]
        for each in read_file(lines(tmp_path, {"question": "Which?"}, *asked), common={"kind": "text"}).questions
    ]
    again = [each["id"] for each in read_file(lines(tmp_path, *known), common={"kind": "option"}).questions]
    assert len({*ids}) == 3 and ids[1:] == again
    assert ids[0] == question_id({"question": "Which?"})  # as it is named when it is asked alone


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at character 2"),
        ('{"question": "?", "target": NaN}', "NaN is not a JSON number"),
        ({"qestion": "?"}, "unknown field 'qestion'; did you mean 'question'?"),
        ({"question": "?", "answer": "1"}, "unknown field 'answer'; did you mean 'target'?"),
        ({"level": 3}, "found no 'question' among 'level'"),
        ({"question": 5}, "question is 5: expected a valid string"),
        ({"question": "?", "kind": "opt"}, "unknown kind of answer 'opt'; did you mean 'option'?"),
        ({"question": "1 + 1?", "target": "two"}, "$5.00; it has no kind, and was recognized as 'number'"),
        ({"question": "?", "target": "C", "kind": "option", "choices": ["a", "b"]}, "expected a letter from A to B"),
        ({"question": "?", "choices": "a|b"}, "choices is 'a|b': expected a valid list"),
        ({"question": "?", "target": "3 + 4 = 7\n#### 7"}, "ends with '#### 7'; expected the answer alone; read a"),
        ('{"question": "?", "target": "\\ud800"}', "found '\\ud800', which cannot be encoded as UTF-8"),
    ],
)  # fmt: skip
def test_a_broken_row_is_named_with_what_is_wrong(tmp_path: Path, row: Any, said: str) -> None:
    told = refused(lines(tmp_path, SUMS[0], "", row, SUMS[1]))
    assert told.startswith("line 3 of question file 'q.jsonl': ") and said in told


def test_the_first_broken_row_is_told_and_the_others_counted(tmp_path: Path) -> None:
    told = refused(lines(tmp_path, SUMS[0], {"question": ""}, "{", {"question": "1 + 1?", "target": "x"}))
    assert told.startswith("line 2 ") and told.endswith("; 2 more of its lines cannot be asked either")
    assert len(refused(lines(tmp_path, {"question": "1 + 1?", "target": "x" * 10_000}))) < 500  # not all of the value


def test_two_rows_of_one_id_are_both_named(tmp_path: Path) -> None:
    named = [{"question": f"{i}?", "id": "a"} for i in range(2)]
    assert "line 2 of question file 'q.jsonl': has the id 'a', like line 1" in refused(lines(tmp_path, *named))
    told = refused(lines(tmp_path, SUMS[0], {**SUMS[0], "level": 4}))
    assert "line 2 of question file 'q.jsonl': asks the same as line 1, and has no id" in told


def test_what_is_no_file_of_questions_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert "cannot be read: Is a directory" in refused(tmp_path / "folder.csv")
    assert "cannot be read: No such file" in refused(tmp_path / "nowhere.csv")
    assert "has no known file ending; expected .jsonl, .ndjson, .json, .csv" in refused(tmp_path / "q.txt")


@pytest.mark.parametrize(
    ("where", "taken"),
    [
        (["subject=sums"], [0, 2]),
        (["subject!=sums"], [1]),
        (["target!=2"], [1, 2]),  # what lacks a field does not have its value
        (["level<2"], [0]),
        (["level<=2", "level>1"], [1]),
        (["target>=2", "subject=products"], [1]),
        (["id=7"], [1]),
    ],
)
def test_rows_are_chosen_by_their_columns(tmp_path: Path, where: list[str], taken: list[int]) -> None:
    file = read_file(lines(tmp_path, *SUMS))
    assert file.take(where).questions == [file.questions[i] for i in taken]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("subjct=1", "unknown field 'subjct'; did you mean 'subject'? Choose from: id, kind, "),
        ("subject=logic", "no row of question file 'q.jsonl' has subject=logic"),
        ("subject<3", "line 1 of question file 'q.jsonl': subject is 'sums'; expected a number, as subject<3"),
        ("level<high", "`where=` is 'level<high'; expected a number after <"),
        ("level", "`where=` is 'level'; expected FIELD=VALUE, FIELD!=VALUE"),
    ],
)  # fmt: skip
def test_a_condition_that_chooses_nothing_is_refused(tmp_path: Path, where: str, said: str) -> None:
    assert refused(lines(tmp_path, *SUMS), where=[where]).startswith(said)


# Columns with names of their own


@pytest.mark.parametrize("name", ["q.csv", "q.jsonl"])
def test_a_refused_column_comes_with_the_option_that_reads_the_file(tmp_path: Path, name: str) -> None:
    rows = [{"my id": "a", "prompt": "1 + 1?", "gold": "2", "note": "x"}]
    text = "my id,prompt,gold,note\na,1 + 1?,2,x" if name == "q.csv" else rows[0]
    path = lines(tmp_path, text, name=name)
    offered = shlex.split(refused(path).partition("Add ")[2].partition(";")[0])
    columns = QuestionOptions.model_validate({offered[0].removeprefix("--"): offered[1]}).columns
    read = read_file(path, columns={**columns, "id": "my id"})
    assert offered == ["--column", "question=prompt,target=gold"]
    assert read.questions == [{"id": "a", "kind": "number", "question": "1 + 1?", "target": "2"}]
    assert read.metadata == {"a": {"note": "x"}}


def test_columns_may_be_swapped_and_one_that_is_not_named_is_no_field(tmp_path: Path) -> None:
    path = lines(tmp_path, {"question": "a title", "text": "1 + 1?", "target": "x", "answer": 2})
    read = read_file(path, columns={"question": "text", "target": "answer", "description": "question"}).questions[0]
    assert (read["question"], read["target"], read["description"]) == ("1 + 1?", "2", "a title")
    assert read_file(path, columns={"question": "text", "solution": "target"}).rows[0].metadata == {"answer": 2}


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("question=promt", "unknown column 'promt'; did you mean 'prompt'? Choose from: note, prompt (--col"),
        ("target=gold", "unknown column 'gold'; choose from: "),
        ("qestion=prompt", "unknown field of a question 'qestion'; did you mean 'question'?"),
        ("prompt", "`columns=` is 'prompt'; expected FIELD=COLUMN, such as question=prompt,target=gold"),
        ("id=note", "found no 'question' among 'id', 'prompt'; expected one: name its column with --column question="),
    ],
)
def test_a_column_that_is_not_there_is_refused(tmp_path: Path, column: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        columns = QuestionOptions.model_validate({"questions": "q.jsonl", "column": [column]}).columns
        read_file(lines(tmp_path, {"prompt": "1 + 1?", "note": "x"}), columns=columns)
    assert said in str(error.value)


# Files as spreadsheets and other programs write them

TABLE = 'question;target;subject\n"1; 1?";2;sums\n2 * 3?;6;products\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.csv", TABLE.encode()),
        ("q.csv", ("sep=;\r\n" + TABLE.replace("\n", "\r\n")).encode("utf-8-sig")),
        ("q.csv", TABLE.replace("\n", "\r").encode()),
        ("q.tsv", TABLE.replace("1; 1", "1:1").replace(";", "\t").replace("1:1", "1; 1").encode()),
        ("q.csv", TABLE.replace("1; 1", "1:1").replace(";", "\t").replace("1:1", "1; 1").encode("utf-16")),
        ("q.csv", b"sep=\t\n" + TABLE.replace("1; 1", "1:1").replace(";", "\t").replace("1:1", "1; 1").encode()),
        ("q.json", b'[{"question": "1; 1?", "target": "2", "subject": "sums"},\n {"question": "2 * 3?", "target": "6",'
         b' "subject": "products"}]'),
        ("q.jsonl", '{"question": "1; 1?", "target": "2", "subject": "sums"}\n{"question": "2 * 3?", "target": "6",'
         ' "subject": "products"}'.encode("utf-16")),
    ],
)  # fmt: skip
def test_a_table_is_read_in_the_forms_that_programs_write(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    read = read_file(tmp_path / name)
    assert [(each["question"], each.get("target")) for each in read.questions] == [("1; 1?", "2"), ("2 * 3?", "6")]
    assert [row.metadata for row in read.rows] == [{"subject": "sums"}, {"subject": "products"}]


def test_a_cell_may_be_longer_than_python_s_default(tmp_path: Path) -> None:
    long = "a" * 200_000
    (tmp_path / "q.csv").write_text(f'question,documents\nWhy?,"[""{long}""]"\n')
    assert read_file(tmp_path / "q.csv").questions[0]["documents"] == [long]


def test_parquet_is_read_with_its_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"question": "1 + 1?", "target": 2, "choices": ["1", "2"], "when": date(2026, 1, 2)}]
    parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), tmp_path / "q.parquet")
    read = read_file(tmp_path / "q.parquet")
    assert (read.questions[0]["target"], read.questions[0]["choices"], read.total) == ("2", ["1", "2"], 1)
    assert read.rows[0].metadata == {"when": "2026-01-02"}
    (tmp_path / "q.parquet").write_bytes(b"PAR1 no")
    assert "question file 'q.parquet' is not a Parquet file: " in refused(tmp_path / "q.parquet")


@pytest.mark.slow
def test_a_row_of_parquet_is_no_longer_than_a_line(tmp_path: Path) -> None:
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    long = ["?" * (LONGEST_LINE + 1)] * 9  # written once: the file is small, and nine rows are not
    parquet.write_table(pyarrow.table({"question": long}), tmp_path / "q.parquet", compression="zstd")
    assert (tmp_path / "q.parquet").stat().st_size < 2**16
    assert "'q.parquet' has a row longer than 16.8 MB; expected shorter ones" in refused(tmp_path / "q.parquet")


def test_a_file_with_more_columns_than_anybody_can_read_is_refused_by_their_number(tmp_path: Path) -> None:
    names = [f"column {i}" for i in range(MOST_COLUMNS + 1)]
    (tmp_path / "q.csv").write_text(f"{','.join(names)}\n")
    path = lines(tmp_path, dict.fromkeys(names, 1))
    for file in (tmp_path / "q.csv", path):
        assert refused(file).endswith(f"'{file.name}': found 10,001 columns; expected at most 10,000")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("q.csv", b"target,qestion\n1,?\n2,?\n", "line 1 of question file 'q.csv': unknown field 'qestion'; did you"),
        ("q.csv", b"question,question\n?,1\n", "line 1 of question file 'q.csv' names 'question' twice"),
        ("q.csv", b'question,target\n"a\nb",1\n?,2,3\n', "line 4 of question file 'q.csv': found 3 cells; expected 2"),
        ("q.csv", b'question,target\n?,1\n"?,1\n?,2\n', "line 3 of question file 'q.csv' is not a CSV row: unexpect"),
        ("q.csv", b'question,hints\n?,"[1, "\n', "line 2 of question file 'q.csv': hints ([1,) is not JSON: Expecting"),
        ("q.csv", b"question\n", "question file 'q.csv' has a header and no row"),
        ("q.csv", b"question\n\xff\n", "is not UTF-8: invalid start byte at byte 9, line 2"),
        ("q.jsonl", b"\n \n", "'q.jsonl' is empty"),
        ("q.csv", b"PK\x03\x04 and more", "is a ZIP archive, as workbooks of Excel are; save the sheet as CSV UTF-8"),
        ("q.jsonl", gzip.compress(b"{}", mtime=0), "is compressed by gzip; unpack it with gunzip"),
        ("q.csv", b"PAR1", "is Parquet; let its name end in .parquet"),
        ("q.csv", "question\nWhy?\n".encode("utf-16-le"), "without a byte order mark; convert it, such as by iconv"),
        ("q.csv", "question\nZürich?\n".encode("latin1"), "byte at byte 10, line 2; convert it, such as by iconv"),
        ("q.csv", b"\xff\xfea", "is damaged UTF-16: "),
        ("q.csv", TABLE.encode() + b"a;b\n", "line 4 of question file 'q.csv': found 2 cells; expected 3, one per "
         "name, separated by ';'"),
        ("q.jsonl", b'[{"question": "?"}]', "one JSON object per line; a file of one list ends in .json"),
        ("q.json", b'[{"question": "?"}, {"q', "question file 'q.json' is not JSON: "),
        ("q.json", b'[{"question": "?"}, 3]', "row 2 of question file 'q.json': found int; expected one JSON object"),
        ("q.json", b'{"question": "?"}', "contains no list of rows; expected one JSON list"),
    ],
)  # fmt: skip
def test_broken_files_and_other_forms_are_named_with_the_line_that_an_editor_shows_or_a_conversion(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert said in refused(tmp_path / name)


# Long files


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv"])
def test_three_rows_of_a_long_file_cost_what_three_rows_cost(tmp_path: Path, name: str) -> None:
    row = {"q.jsonl": '{{"question": "{} + 1?"}}\n', "q.csv": "{} + 1?\n"}[name]
    start = {"q.jsonl": "", "q.csv": "question\n"}[name]
    broken = "\n{" * 9  # what would be refused if it were read
    (tmp_path / name).write_text(start + "".join(row.format(i) for i in range(900)) + broken)
    read = read_file(tmp_path / name, enough=Enough(rows=3))
    assert read.take(limit=3).taken == f"3 rows of {name}"
    assert [each["question"] for each in read.questions] == ["0 + 1?", "1 + 1?", "2 + 1?"]
    assert read.digest == read_file(tmp_path / name, enough=Enough(rows=3)).digest
    with pytest.raises(UsageError):
        read_file(tmp_path / name)


def test_rows_are_read_until_enough_meet_the_conditions_and_each_field_was_there(tmp_path: Path) -> None:
    path = lines(tmp_path, *({"question": f"{i}?", "level": i} for i in range(9)), {"question": "?", "late": 1}, "{")
    read = read_file(path, enough=Enough(["level>=3"], 2))
    assert len(read.rows) == 5 and read.take(["level>=3"], 2).taken == "2 rows of q.jsonl with level>=3"
    assert len(read_file(path, enough=Enough(["late!=2"], 2)).rows) == 10
    with pytest.raises(UsageError, match="is not JSON"):
        read_file(path, enough=Enough(["missing!=2"], 2))


@pytest.mark.parametrize(
    ("name", "start", "said"),
    [
        (
            "q.jsonl",
            b'{"question": "?"}\n',
            "line 2 of question file 'q.jsonl' is longer than 16.8 MB; expected one row",
        ),
        ("q.json", b"[\n", "question file 'q.json' is one JSON value of more than 1.07 GB; use JSON Lines for large"),
    ],
)
def test_a_line_or_a_list_that_is_too_long_is_refused_without_reading_on(
    tmp_path: Path, name: str, start: bytes, said: str
) -> None:
    with (tmp_path / name).open("wb") as file:
        file.write(start)
        file.truncate(2**33)  # zeros, which take no room
    assert refused(tmp_path / name).startswith(said)
