"""Questions of a file: rows, what is wrong with them, and conditions on them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.datasets.question_files import read_file
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
        ({"question": "?", "kind": "opt"}, "unknown kind of answer 'opt'; choose from: label, number,"),
        ({"question": "1 + 1?", "target": "two"}, "$5.00; it has no kind, and was recognized as 'number'"),
        ({"question": "?", "target": "C", "kind": "option", "choices": ["a", "b"]}, "expected a letter from A to B"),
        ({"question": "?", "choices": "a|b"}, "choices is 'a|b': expected a valid list"),
        ('{"question": "?", "target": "\\ud800"}', "found '\\ud800', which cannot be encoded as UTF-8"),
    ],
)  # fmt: skip
def test_a_broken_row_is_named_with_what_is_wrong(tmp_path: Path, row: Any, said: str) -> None:
    told = refused(lines(tmp_path, SUMS[0], "", row, SUMS[1]))

    assert told.startswith("line 3 of question file 'q.jsonl': ") and said in told


def test_the_first_broken_row_is_told_and_the_others_counted(tmp_path: Path) -> None:
    told = refused(lines(tmp_path, SUMS[0], {"question": ""}, "{", {"question": "1 + 1?", "target": "x"}))

    assert told.startswith("line 2 ") and told.endswith("; 2 more of its lines cannot be asked either")


def test_a_long_value_does_not_make_a_long_line(tmp_path: Path) -> None:
    assert len(refused(lines(tmp_path, {"question": "1 + 1?", "target": "x" * 10_000}))) < 500


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("target,qestion\n1,?\n2,?\n", "line 1 of question file 'q.csv': unknown field 'qestion'; did you"),
        ("question,question\n?,1\n", "line 1 of question file 'q.csv' names 'question' twice"),
        ('question,target\n"a\nb",1\n?,2,3\n', "line 4 of question file 'q.csv': found 3 cells; expected 2"),
        ('question,target\n?,1\n"?,1\n?,2\n', "line 3 of question file 'q.csv' is not a CSV row: unexpected end of"),
        ('question,hints\n?,"[1, "\n', "line 2 of question file 'q.csv': hints ([1,) is not JSON: Expecting value"),
        ("question\n", "question file 'q.csv' has a header and no row"),
    ],
)  # fmt: skip
def test_broken_csv_is_refused_with_the_line_that_an_editor_shows(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "q.csv").write_text(text)

    assert refused(tmp_path / "q.csv").startswith(said)


def test_two_rows_of_one_id_are_both_named(tmp_path: Path) -> None:
    named = [{"question": f"{i}?", "id": "a"} for i in range(2)]

    assert "line 2 of question file 'q.jsonl': has the id 'a', like line 1" in refused(lines(tmp_path, *named))
    told = refused(lines(tmp_path, SUMS[0], {**SUMS[0], "level": 4}))
    assert "line 2 of question file 'q.jsonl': asks the same as line 1, and has no id" in told


def test_what_is_no_file_of_questions_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "bytes.csv").write_bytes(b"question\n\xff\n")

    assert "cannot be read: Is a directory" in refused(tmp_path / "folder.csv")
    assert "cannot be read: No such file" in refused(tmp_path / "nowhere.csv")
    assert "is neither JSON Lines nor CSV by its name; expected .jsonl or .csv" in refused(tmp_path / "q.txt")
    assert "is not UTF-8: invalid start byte at byte 9, line 2" in refused(tmp_path / "bytes.csv")
    assert "'q.jsonl' is empty" in refused(lines(tmp_path, "", " "))


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
        ("subjct=1", "unknown field 'subjct'; choose from: id, kind, level, question, subject, target (--where"),
        ("subject=logic", "no row of question file 'q.jsonl' has subject=logic"),
        ("subject<3", "line 1 of question file 'q.jsonl': subject is 'sums'; expected a number, as subject<3"),
        ("level<high", "--where is 'level<high'; expected a number after <"),
        ("level", "--where is 'level'; expected FIELD=VALUE, FIELD!=VALUE"),
    ],
)  # fmt: skip
def test_a_condition_that_chooses_nothing_is_refused(tmp_path: Path, where: str, said: str) -> None:
    assert refused(lines(tmp_path, *SUMS), where=[where]).startswith(said)
