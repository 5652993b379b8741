"""Published data sets: rows as published, in real slices, in files of the published size, and of the hub."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.datasets.answers import plain_number
from sottovoce.datasets.published import parse_source, read_source
from sottovoce.datasets.question_files import QuestionFile
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.nodes.question import check_question
from sottovoce.nodes.settings import Settings
from sottovoce.prompts import kinds
from tests.datasets.test_question_files import lines as file
from tests.shared import shared

GSM8K = {"question": "How many?", "answer": "She has 3 + 4 = <<3+4=7>>7.\n#### 7"}
ECQA = {"q_text": "Which?", **{f"q_op{i}": f"thing {i}" for i in range(1, 6)}, "q_ans": "thing 3", "taskB": "It is."}
AQUA = {"question": "x?", "options": ["A)1", "B) 2", "C)3", "D)A", "E)5"], "rationale": "So.", "correct": "B"}


def read(written: str) -> QuestionFile:
    source = parse_source(written)
    assert source is not None
    return read_source(source)


def said(written: str) -> str:
    """What is said of a source that is refused, on one line."""
    with pytest.raises(UsageError) as error:
        read(written)
    assert "\n" not in str(error.value)
    return str(error.value)


# Real slices


@pytest.mark.parametrize(
    ("name", "slice", "rows", "options"),
    [
        ("gsm8k", "gsm8k_test_first200.jsonl", 200, 0),
        ("mmlu/high_school_mathematics", "mmlu_high_school_mathematics_first60.csv", 60, 4),
        ("ecqa", "ecqa_test_first100.csv", 100, 5),
        ("aqua", "aqua_test_first60.jsonl", 60, 5),
        ("arithmetic", "arithmetic_valid200.jsonl", 200, 0),
        ("strategyqa", "strategyqa_dev_first60.json", 60, 0),
        ("fever", "fever_paper_dev_first200.jsonl", 200, 3),
        ("hotpotqa", "hotpotqa_dev_simplified_first200.json", 200, 0),
    ],
)
def test_each_row_of_a_real_slice_is_asked_with_an_answer_that_counts(
    name: str, slice: str, rows: int, options: int
) -> None:
    asked = read(f"{name}:{shared(f'datasets/{slice}')}").questions
    assert len(asked) == len({each["id"] for each in asked}) == rows
    assert {len(each.get("choices", [])) for each in asked} == {options}
    assert all(kinds.right(kinds.target_of(each), each) for each in asked)


def test_gold_answers_of_gsm8k_lose_no_digits_and_calculator_marks_are_no_part_of_a_solution() -> None:
    written = f"gsm8k:{shared('datasets/gsm8k_test_first200.jsonl')}"
    asked = read(written).questions
    assert asked[146]["target"] == "2125"  # SDE's evaluator reads 125
    assert not any("<<" in each["solution"] for each in asked)


def test_where_the_right_option_stands_twice_both_letters_are_right() -> None:
    question = read(f"ecqa:{shared('datasets/ecqa_test_first100.csv')}").questions[28]
    assert (question["choices"][1], question["choices"][4]) == ("studio", "studio")
    assert [letter for letter in "ABCDE" if kinds.right(letter, question)] == ["B", "E"]


# Rows


@pytest.mark.parametrize(("written", "read"), [("2,125", "2125"), ("\u221210", "-10"), ("$1,234,567.50", "1234567.50")])
def test_numbers_are_read_with_their_sign_and_all_their_digits(written: str, read: str) -> None:
    assert plain_number(written) == read


def test_an_option_that_is_a_letter_is_not_taken_for_the_answer(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("Which grade is best?,B,C,D,A,D\nAnd worst?,B,C,D,A,A\n")
    best, worst = read(f"mmlu:{tmp_path / 'm.csv'}").questions
    assert (kinds.target_of(best), kinds.target_of(worst)) == ("D", "A")


def test_medqa_is_read_as_latentmas_has_it_and_with_options_by_letter(tmp_path: Path) -> None:
    """LatentMAS's file is one list; its questions end with the options, twice, and answers are texts of options."""
    options = ["A. rest", "B. water", "C. sleep", "D. tea"]
    shown = "\n".join(options)
    row = {"question": f"What helps?\n{shown}\n\n{shown}", "options": options, "answer": "sleep", "pid": "0"}
    (tmp_path / "medqa.json").write_text(json.dumps([row, row]), encoding="utf-8")
    letters = dict(zip("ABCD", ("rest", "water", "sleep", "tea"), strict=True))
    by_letter = {"question": "What helps?", "options": letters, "answer": "sleep", "answer_idx": "C"}
    first, second = read(f"medqa:{tmp_path / 'medqa.json'}").questions
    (third,) = read(f"medqa:{file(tmp_path, by_letter)}").questions

    assert (first["id"], second["id"]) == ("medqa/0", "medqa/1")
    for question in (first, third):
        assert (question["question"], question["choices"]) == ("What helps?", [*letters.values()])
        assert (question["target"], kinds.kind_of(question)) == ("C", "option")
    assert "answer is 'salt'; expected one of the options: 'rest'," in said(
        f"medqa:{file(tmp_path, {**row, 'answer': 'salt'})}"
    )


def test_a_whole_file_is_told_from_a_slice_by_the_published_count(tmp_path: Path) -> None:
    found = read(f"gsm8k:{file(tmp_path, *[GSM8K] * 1_319)}")
    assert (found.total, len({each["id"] for each in found.questions})) == (1_319, 1_319)
    assert found.take([], 300).taken == "300 of 1,319 rows of gsm8k (q.jsonl)"


# What is wrong


def test_an_unknown_data_set_or_part_is_told_with_the_nearest(tmp_path: Path) -> None:
    assert said("gsmk8:test.jsonl") == "unknown data set 'gsmk8'; did you mean 'gsm8k'?"
    assert said("gsm8k/tets:test.jsonl").startswith("unknown part of gsm8k 'tets'; did you mean 'test'? Choose from:")
    assert "cannot be read: No such file" in said(f"gsm8k:{tmp_path / 'none.jsonl'}")


def test_a_file_in_another_form_is_told_with_the_form_that_is_expected(tmp_path: Path) -> None:
    path = file(tmp_path, "question,answer", name="g.csv")
    path.write_text("question,answer\n1 + 1?,2\n")
    assert "is not JSON: it begins with 'question,answer" in said(f"gsm8k:{path}")
    assert "has the columns 'question', 'answer'; expected CSV with the columns q_text, q_op1" in said(f"ecqa:{path}")
    assert "found 2 cells; expected 6" in said(f"mmlu:{path}")


def test_questions_of_a_data_set_keep_the_digest_of_their_file_and_their_own_kind(tmp_path: Path) -> None:
    path = file(tmp_path, GSM8K, GSM8K)
    asked, origin = questions_of(QuestionOptions(questions=f"gsm8k:{path}", limit=1), Settings())
    assert [each["id"] for each in asked] == ["gsm8k/0"]
    assert origin.words == "1 of 2 rows of gsm8k (q.jsonl)" and len(origin.digest or "") == 64
    with pytest.raises(UsageError, match="answers of gsm8k are of kind 'number'"):
        questions_of(QuestionOptions(questions=f"gsm8k:{path}", kind="text"), Settings())


def test_rows_are_skipped_and_mixed_as_the_papers_do_it(tmp_path: Path) -> None:
    path = file(tmp_path, *[{**GSM8K, "question": f"{i}?"} for i in range(50)])
    order = [*range(50)]
    random.Random(233).shuffle(order)

    given = QuestionOptions(questions=f"gsm8k:{path}", shuffle=233, skip=2, limit=5)
    asked, origin = questions_of(given, Settings())

    assert [each["id"] for each in asked] == [f"gsm8k/{i}" for i in order[2:7]]
    assert origin.words == "5 of 50 rows of gsm8k (q.jsonl) shuffled by seed 233 behind the first 2"
    with pytest.raises(UsageError, match=r"`skip=` is 50, and gsm8k file .* has 50 such rows; skip fewer"):
        questions_of(QuestionOptions(questions=f"gsm8k:{path}", skip=50), Settings())
    with pytest.raises(UsageError, match="--shuffle chooses rows of a file, but no file was given"):
        questions_of(QuestionOptions(shuffle=1), Settings())


def test_aliases_are_held_to_what_targets_are() -> None:
    with pytest.raises(UsageError, match="target is 'two'; expected a number, such as 22"):
        check_question({"question": "1 + 1?", "target": "2", "aliases": ["two"]}, None)
    with pytest.raises(UsageError, match=r"aliases are \['2'\], other forms of a target, but there is no target"):
        check_question({"question": "1 + 1?", "aliases": ["2"]}, None)


# The hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def repository(folder: Path, config: str, data: str) -> Path:
    """The folder of a repository with its card, and the empty folder of one config."""
    (folder / config).mkdir(parents=True)
    card = f"config_name: {config}\n  data_files:\n  - split: test\n    path: {config}/{data}"
    (folder / "README.md").write_text(f"---\nconfigs:\n- {card}\n---\n")
    return folder


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository as it is cloned from the hub: data files, and a card that says which are whose."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")  # not the user's own
    folder = repository(tmp_path / "org" / "sums", "main", "test.jsonl")
    file(folder / "main", GSM8K, {**GSM8K, "answer": "so\n#### 1,200"}, name="test.jsonl")
    return folder


def test_a_copy_of_a_repository_is_read_with_its_config_and_split(copy: Path) -> None:
    found = read(f"gsm8k:{copy}")
    assert [each["target"] for each in found.questions] == ["7", "1200"]
    assert (found.taken, len(found.digest)) == ("all 2 rows of gsm8k (sums)", 64)
    assert "(config 'main', split 'train') cannot be loaded: Unknown split" in said(f"gsm8k/train:{copy}")


def test_parquet_is_read_with_the_columns_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    row = {"question": "1 + 1?", "subject": "sums", "choices": ["1", "2", "3", "4"], "answer": 1}
    folder = repository(tmp_path / "mmlu", "sums", "test-*")
    datasets.Dataset.from_list([row]).to_parquet(folder / "sums" / "test-0.parquet")
    (question,) = read(f"mmlu/sums:{folder}").questions
    assert (question["id"], question["target"]) == ("mmlu/sums/0", "B")


@pytest.mark.parametrize("where", ["openai/gsm8k", "openai/gsm8k@main", f"openai/gsm8k@{COMMIT[:7]}"])
def test_a_repository_that_is_not_pinned_is_refused_with_how_to_pin_it(where: str) -> None:
    wrong = (
        f"{where!r} is not a file and names no commit on the hub; expected a file, or openai/gsm8k@COMMIT with the 40"
    )
    assert said(f"gsm8k:{where}").startswith(wrong)


def test_a_folder_is_never_taken_for_a_pinned_repository(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy.parents[1])
    assert said(f"gsm8k:org/sums@{COMMIT}").startswith("the local folder 'org/sums' would be read instead")


def test_a_repository_that_cannot_be_reached_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert f"gsm8k of 'openai/gsm8k@{COMMIT}' (config 'main', split 'test') cannot be loaded: " in said(
        f"gsm8k:openai/gsm8k@{COMMIT}"
    )
