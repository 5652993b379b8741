"""One row of each data set as it was published, on the hub, and broken; and what `datasets` tells of a file."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.data import example
from sottovoce.cli.main import main
from sottovoce.datasets import DATASETS
from sottovoce.nodes.question import passages_of
from sottovoce.prompts import kinds
from sottovoce.runs.measures import f1, golds_of
from tests.datasets.test_contexts import BROKEN
from tests.datasets.test_datasets import AQUA, ECQA, GSM8K, read, said
from tests.datasets.test_question_files import lines as file

FOLIO = {"premises": ["All cats purr.", "Tom is a cat."], "conclusion": "Tom purrs.", "label": "true"}
STRATEGY = {"qid": "q7", "question": "Do cats purr?", "answer": True, "facts": ["Cats purr."], "term": "Cat"}
FEVER = {"id": 9, "claim": "Cats bark.", "label": "REFUTES", "verifiable": "VERIFIABLE"}
HOTPOT = {
    "_id": "h1", "question": "Who?", "answer": "Tom", "type": "bridge", "level": "hard",
    "context": [["Tom", ["Tom is a cat. ", "He purrs."]], ["Ann", ["Ann is not."]]],
}  # fmt: skip
CWQ = {"ID": "c1", "question": "Where?", "answers": [{"answer": "Rome", "aliases": ["Roma"]}, {"answer": "Ostia"}]}
TRIVIA = {"QuestionId": "t1", "Question": "Who?", "Answer": {"Value": "Tom", "Aliases": ["Tom", "Thomas"]}}
HUMANEVAL = {
    "task_id": "HumanEval/0", "prompt": "def f(x):\n", "canonical_solution": "    return x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 1\n", "entry_point": "f",
}  # fmt: skip
CASES = json.dumps([{"input": "[1, 2]\n3", "output": "6", "testtype": "functional"}])
LCB = {
    "question_id": "l1", "question_content": "Add them.", "difficulty": "easy",
    "starter_code": "class Solution:\n    def add(self, a: List[int], b: int) -> int:\n        ",
    "public_test_cases": CASES, "private_test_cases": CASES,
}  # fmt: skip
CIAR = {
    "question": "How long?", "answer": ["15", "fifteen", "15.0"],
    "explanation": "3 by 5.", "incorrect explanation": "3.",
}  # fmt: skip

ROWS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("gsm8k", GSM8K, "7", {"id": "gsm8k/0"}),
    ("ecqa", ECQA, "C", {"solution": "It is. The answer is thing 3."}),
    ("aqua", AQUA, "B", {"choices": ["1", "2", "3", "A", "5"]}),
    ("arithmetic", {"question": "2-9?", "answer": "-7"}, "-7", {"kind": "number"}),
    ("ciar", CIAR, "15", {"kind": "number", "decoys": ["3."], "aliases": ["15.0"]}),
    ("ciar", {**CIAR, "answer": ["Tom"]}, "Tom", {"kind": "text"}),
    ("folio", FOLIO, "Correct", {"question": "Premises:\n1. All cats purr.\n2. Tom is a cat.\nConclusion: Tom purrs."}),
    ("folio/documents", {**FOLIO, "label": "Uncertain"}, "Unknown", {"documents": FOLIO["premises"]}),
    ("strategyqa", STRATEGY, "yes", {"id": "strategyqa/q7", "solution": "Cats purr. The answer is yes."}),
    ("strategyqa/facts", STRATEGY, "yes", {"documents": ["Cats purr."]}),
    ("fever", FEVER, "REFUTES", {"id": "fever/9", "choices": ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]}),
    ("fever2", {**FEVER, "label": "NOT ENOUGH INFO"}, "NOT ENOUGH INFO", {"kind": "label"}),
    ("hotpotqa", HOTPOT, "Tom", {"id": "hotpotqa/h1"}),
    ("cwq", CWQ, "Rome", {"aliases": ["Roma", "Ostia"]}),
    ("quasar_t", {"uid": "s1", "question": "Who?", "answer": "Tom"}, "Tom", {"id": "quasar_t/s1"}),
    ("triviaqa", TRIVIA, "Tom", {"aliases": ["Thomas"]}),
    ("nq", {"question": "Who?", "answer": ["Tom", "Ann"]}, "Tom", {"aliases": ["Ann"]}),
]  # fmt: skip


ELSEWHERE = {"mmlu", "feverous", "2wiki", "humaneval", "livecodebench", "commonmt"}
ELSEWHERE |= {"countries", "tipsheets", "qasper", "musique", "multifieldqa_en", "2wikimqa", "tmath", "medqa"}
"""Those that tests of their own read."""


@pytest.mark.parametrize(("name", "row", "target", "fields"), ROWS)
def test_a_row_is_read_as_it_was_published(
    tmp_path: Path, name: str, row: dict[str, Any], target: str, fields: dict[str, Any]
) -> None:
    (question,) = read(f"{name}:{file(tmp_path, row)}").questions
    assert kinds.target_of(question) == target
    assert {**question, **fields} == question


def test_every_data_set_is_known_by_the_name_that_it_has() -> None:
    assert [DATASETS[name].name for name in DATASETS] == [*DATASETS]
    assert {row[0].split("/")[0] for row in ROWS} | ELSEWHERE == {*DATASETS}


def test_gold_evidence_is_given_to_nobody_unless_the_part_says_so(tmp_path: Path) -> None:
    strategy, hotpot = file(tmp_path, STRATEGY, name="s"), file(tmp_path, HOTPOT, name="h")
    assert passages_of(read(f"strategyqa:{strategy}").questions[0], None) == []
    assert passages_of(read(f"hotpotqa:{hotpot}").questions[0], None) == []
    assert passages_of(read(f"hotpotqa/context:{hotpot}").questions[0], None) == [
        {"title": "Tom", "text": "Tom is a cat. He purrs."},
        {"title": "Ann", "text": "Ann is not."},
    ]


def test_columns_of_the_hub_are_read_as_those_of_the_file(tmp_path: Path) -> None:
    hub = {**HOTPOT, "context": {"title": ["Tom"], "sentences": [["Tom is a cat."]]}}
    mmlu = {"question": "1 + 1?", "subject": "sums", "choices": ["1", "2", "3", "4"], "answer": 1}
    assert passages_of(read(f"hotpotqa/context:{file(tmp_path, hub)}").questions[0], None) == [
        {"title": "Tom", "text": "Tom is a cat."}
    ]
    found = read(f"mmlu/sums:{file(tmp_path, mmlu)}")
    assert kinds.target_of(found.questions[0]) == "B" and found.rows[0].metadata == {"subject": "sums"}


def test_any_form_of_the_target_is_right(tmp_path: Path) -> None:
    (question,) = read(f"cwq:{file(tmp_path, CWQ)}").questions
    assert [kinds.right(answer, question) for answer in ("roma", "Ostia", "Milan", None)] == [True, True, False, False]


def test_other_names_of_answers_are_read_from_the_file_beside(tmp_path: Path) -> None:
    row = {"_id": "w1", "question": "Who?", "answer": "Tom", "answer_id": "Q5", "type": "comparison"}
    (tmp_path / "dev.json").write_text(json.dumps([row]))
    file(tmp_path, {"Q_id": "Q5", "aliases": ["Thomas"]}, {"Q_id": "Q6", "aliases": ["Ann"]}, name="id_aliases.json")
    found = read(f"2wiki:{tmp_path}")
    assert found.questions[0]["aliases"] == ["Thomas"]
    assert found.digest != read(f"2wiki:{tmp_path / 'dev.json'}").digest
    file(tmp_path, {"Q_id": "Q5"}, name="id_aliases.json")
    assert "id_aliases.json': found 'Q_id'; expected Q_id and aliases" in said(f"2wiki:{tmp_path}")


def test_a_list_within_an_object_is_found_and_its_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"Version": 1, "Data": [TRIVIA, {**TRIVIA, "Answer": 3}]}, indent=1))
    assert said(f"triviaqa:{tmp_path / 't.json'}").startswith("row 2 of triviaqa file ")


def test_two_rows_with_one_id_are_told_apart_and_an_empty_first_row_is_passed_over(tmp_path: Path) -> None:
    blank = {"id": "", "claim": "", "label": ""}
    found = read(f"feverous:{file(tmp_path, blank, FEVER, {**FEVER, 'claim': 'Cats purr.'})}")
    assert [each["id"] for each in found.questions] == ["feverous/9", "feverous/9-2"]
    assert (found.total, found.rows[0].line) == (2, 2)


def test_a_row_for_each_evidence_sentence_is_one_claim_with_all_gold_pages(tmp_path: Path) -> None:
    """As on the hub: 6 claims came as 60 questions."""
    rows = [
        {**FEVER, "id": id, "claim": f"Claim {id}.", "evidence_wiki_url": page, "evidence_sentence_id": sentence}
        for id in range(6)
        for page in ("Cat", "Dog_-LRB-film-RRB-")
        for sentence in range(5)
    ]
    found = read(f"fever:{file(tmp_path, *rows)}")

    assert [each["id"] for each in found.questions] == [f"fever/{id}" for id in range(6)]
    assert found.total == 6 and all("aliases" not in each for each in found.questions)
    assert [each["gold_passages"] for each in found.questions] == [["Cat", "Dog (film)"]] * 6
    other = {**rows[0], "label": "SUPPORTS"}
    told_apart = read(f"fever:{file(tmp_path, rows[0], other)}").questions
    assert [each["id"] for each in told_apart] == ["fever/0", "fever/0-2"]


def test_a_row_for_each_reference_is_one_question_scored_by_the_best(tmp_path: Path) -> None:
    """As in SCROLLS's layout of QASPER; F1 was that of one reference at a time."""
    row = {"id": "q1", "input": "Which corpus?\n\nWe read OrnBank.", "output": "OrnBank"}
    rows = [{**row, "pid": "q1_0"}, {**row, "pid": "q1_1", "output": "the bank of Orn"}, {**row, "pid": "q1_2"}]
    (question,) = read(f"qasper:{file(tmp_path, *rows)}").questions
    assert (question["id"], question["target"], question["aliases"]) == ("qasper/q1", "OrnBank", ["the bank of Orn"])
    assert f1("bank of Orn", golds_of(question)) == 1.0


def test_a_programs_tests_are_kept_from_agents_and_ask_for_its_function(tmp_path: Path) -> None:
    (human,) = read(f"humaneval:{file(tmp_path, HUMANEVAL, name='h')}").questions
    (contest,) = read(f"livecodebench:{file(tmp_path, LCB, name='l')}").questions
    assert human["game"]["entry_point"] == "f" and human["solution"] == "def f(x):\n    return x\n"
    assert contest["game"] == {
        "test": "def check(candidate):\n" + "    assert candidate().add(*[[1, 2], 3]) == 6\n" * 2,
        "entry_point": "Solution",
    }
    assert "assert" not in contest["question"] and "class Solution:" in contest["question"]


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    path = file(tmp_path, {**LCB, "private_test_cases": "eJxrYJmayQABtVOm9GgBACSxBLo="})
    assert "private_test_cases are packed as a pickle, which could run code" in said(f"livecodebench:{path}")
    assert len(read(f"livecodebench/public:{path}").questions) == 1


def test_programs_that_read_standard_input_are_told_or_passed_over(tmp_path: Path) -> None:
    path = file(tmp_path, {**LCB, "question_id": "l0", "starter_code": ""}, LCB)
    assert "it reads standard input" in said(f"livecodebench:{path}")
    (only,) = read(f"livecodebench/functional:{path}").questions
    assert only["id"] == "livecodebench/functional/l1"


def test_a_translation_has_a_reference_and_nothing_that_a_wrong_measure_could_score(tmp_path: Path) -> None:
    (tmp_path / "mt.tsv").write_text('他"吃"食堂。\tHe eats in the canteen.\n', encoding="utf-8")
    found = read(f"commonmt:{tmp_path / 'mt.tsv'}")
    assert found.questions[0]["question"] == 'Translate into English: 他"吃"食堂。'
    assert "target" not in found.questions[0]
    assert found.rows[0].metadata == {"reference": "He eats in the canteen."}


@pytest.mark.parametrize(
    ("name", "row", "wrong"),
    [
        ("aqua", {**AQUA, "options": AQUA["options"][:4]}, "found 4 options; expected 5"),
        ("ecqa", {**ECQA, "q_ans": "thing 6"}, "q_ans is 'thing 6'; expected one of the options: 'thing 1', "),
        ("gsm8k", {**GSM8K, "answer": "so\n#### 1,2"}, "the answer is '1,2'; expected a number"),
        ("strategyqa", {**STRATEGY, "answer": "perhaps"}, "answer is 'perhaps'; expected true or false"),
        ("fever", {**FEVER, "label": "TRUE"}, "label is 'TRUE'; expected one of supports, refutes, not enough info"),
        ("hotpotqa/context", {**HOTPOT, "context": [["Tom"]]}, "context contains no [title, sentences] pairs"),
        ("cwq", {**CWQ, "answers": "Rome"}, "answers are 'Rome'; expected a list of {answer, aliases}"),
        ("livecodebench", {**LCB, "public_test_cases": "[3]"}, "public_test_cases contain no inputs and outputs"),
        *BROKEN,
    ],
)
def test_a_broken_row_is_told_behind_its_place(tmp_path: Path, name: str, row: dict[str, Any], wrong: str) -> None:
    assert said(f"{name}:{file(tmp_path, row)}").partition(": ")[2].startswith(wrong)


# What is told of a file


def test_an_example_is_shown_as_agents_read_it_with_its_target(tmp_path: Path) -> None:
    (question,) = read(f"ecqa:{file(tmp_path, ECQA)}").questions
    assert example(question).split("\n") == [
        "ecqa/0 (option)", "Which?", *(f"({letter}) thing {i}" for i, letter in enumerate("ABCDE", 1)), "target: C",
    ]  # fmt: skip


def test_the_command_lists_data_sets_and_shows_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {**GSM8K, "answer": "so\n#### 1,200"}
    shown = f"gsm8k:{file(tmp_path, row)}"
    codes = [main(["data", *arguments]) for arguments in (["list"], ["show", shown], ["show", "rows"])]
    out, err = capsys.readouterr()
    assert codes == [0, 0, 2]
    assert all(f"\n{name} " in f"\n{out}" for name in DATASETS)
    assert "\n1 row, sha256 " in out
    assert "gsm8k/0 (number)\nHow many?\ntarget: 1200\n" in out
    assert err.startswith("sottovoce: unknown data set 'rows'; ")
    assert err.endswith(" (expected NAME, or NAME:FILE, such as gsm8k:test.jsonl)\n")


# Others' data sets


def test_a_data_set_of_another_package_is_asked_as_the_guide_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "data.md").read_text(encoding="utf-8")
    code = textwrap.dedent(guide[guide.index("    # colours.py") : guide.index("and an entry point in its")])
    (tmp_path / "colours.py").write_text(code)
    (tmp_path / "colours-1.dist-info").mkdir()
    (tmp_path / "colours-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: colours\nVersion: 1\n")
    entry_point = "[sottovoce.datasets]\ncolours = colours:COLOURS\n"
    (tmp_path / "colours-1.dist-info" / "entry_points.txt").write_text(entry_point)
    monkeypatch.syspath_prepend(tmp_path)

    (question,) = read(f"colours:{file(tmp_path, {'ask': 'Grass?', 'colour': 'green'})}").questions

    del DATASETS._known["colours"]  # other tests list all that there are
    assert question == {"id": "colours/0", "kind": "text", "question": "Grass?", "target": "green"}
