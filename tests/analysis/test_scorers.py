"""The papers' scorers: what they misread, and their scores of a run beside ours."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from sottovoce.analysis import scorers
from sottovoce.analysis.scorers import gold_of
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.run_tables import show_measures
from sottovoce.datasets import DATASETS
from sottovoce.datasets.published import Source, read_source
from sottovoce.experiments.published import observed
from sottovoce.nodes.question import Question
from sottovoce.runs.run import load_run
from tests.runs.single import run_one
from tests.runs.support import task
from tests.shared import shared

FRUIT = ["apples", "pears", "figs"]
ASKED: Question = {"question": "What is it?", "kind": "number", "target": "22", "id": "it"}


@pytest.mark.parametrize(
    ("scorer", "texts", "gold", "score"),
    [
        (scorers.du_number, ["{7}", "8", "so 8"], "8", 1),
        (scorers.du_number, ["{7}", "{8}"], "7", 1),  # a tie goes to the first
        (scorers.du_number, ["I cannot say.", "Nor can I.", "{7}"], "8", 1),  # row 40: no number wins, and is right
        (scorers.du_number, ["It is 1,300."], "1,300", 1),  # both are 300
        (scorers.du_number, ["{-5}"], "5", 1),  # its sign is lost
        (scorers.du_number, ["{$1.2.3}"], "8", 0),  # no number to Python either
        (scorers.du_option, ["(b)", "so 3"], "B", 1),
        (scorers.du_option, ["(A)", "no letter", "none"], "A", 1),  # they do not vote
        (scorers.cipher_number, ["Answer: 7", "Answer: 8"], "8", 1),  # a tie goes to the last
        (scorers.cipher_number, ["Answer: -5 or Answer: 6"], "-5", 1),  # the first that is marked
        (scorers.cipher_number, ["Answer: 1.5, not Answer: 1"], "1.5", 1),
        (scorers.cipher_number, ["{-8}"], "8", 1),  # its sign is lost
        (scorers.cipher_number, ["none", "none", "8"], "8", 0),  # -99999 wins
        (scorers.sde_span, [r"\boxed{\text{The Orla}}", "Orla", "It is Orla", r"\boxed{Orla"], "Orla", 0.5),
    ],
)
def test_a_scorer_misreads_as_its_paper_s_program(
    scorer: scorers.Scorer, texts: list[str], gold: str, score: float
) -> None:
    assert scorer(texts, gold, ()) == score


@pytest.mark.parametrize(
    ("text", "cipher", "sde"),
    [
        ("Answer: c", "C", None),
        ("the answer is (b)", "B", "B"),
        ("(X) or (e)", ")", "E"),
        (r"\boxed{pears}", "}", "B"),
        ("A fig", "G", "A"),  # the article
        ("", "-", None),
    ],
)
def test_letters_are_read_as_each_program_reads_them(text: str, cipher: str, sde: str | None) -> None:
    assert (scorers.cipher_letter_of(text), scorers.sde_letter(text, FRUIT)) == (cipher, sde)


@pytest.mark.parametrize(
    ("text", "value"),
    [("42", 42), ("{42} 7", 42), ("It is 42.", None), ("18.00", None), ("{-5}", 5), ("{1,300}", 1300), ("1,300", 300)],
)
def test_sde_reads_whole_numbers_so(text: str, value: int | None) -> None:
    assert scorers.sde_integer(text) == value


def test_examples_of_the_scorers_hold() -> None:
    """That of SDE once said 0.5: no test ran it."""
    assert doctest.testmod(scorers).failed == 0


def scores(folder: Path, *replies: str, asked: Question = ASKED) -> dict[str, float]:
    """A debate of one round, by all scorers."""
    said = {f"agent_{i}": [reply] for i, reply in enumerate(replies, 1)}
    run_one(task(said, asked, answer_turn="off"), PayloadStore(folder / "payloads"), folder=folder / "run")
    return {name: mean.value for name, mean in scorers.scored(load_run(folder / "run")).items()}


def test_a_gold_answer_of_gsm8k_is_misread_as_its_file_prints_it(tmp_path: Path) -> None:
    """A published row, with its comma; our own score reads it right."""
    path = shared("datasets/gsm8k_test_first200.jsonl")
    asked = read_source(Source(DATASETS["gsm8k"], "", str(path))).questions[146]
    assert (asked["target"], gold_of(asked)) == ("2125", "2,125") and "####" not in asked["solution"]
    values = scores(tmp_path, "Answer: 2,125", "Answer: {2,125}", "Answer: {2125}", asked=asked)
    assert values["ours"] == 1 and values["as Du et al."] == 0


def test_measures_show_the_papers_scores_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = scores(tmp_path, "The answer is 22.", "The answer is 23.")
    assert values == {"ours": 1, "as Du et al.": 1, "as CIPHER": 0, "as SDE": 0}  # "22." is no integer
    show_measures([str(tmp_path / "run")], "round")
    lines = capsys.readouterr().out.splitlines()
    assert "| score | discussions | mean | 95 % |" in lines
    assert [line.split(" | ")[0] for line in lines[-4:]] == ["| ours", "| as Du et al.", "| as CIPHER", "| as SDE"]


def test_rouge_l_compares_a_whole_reply_with_a_printed_solution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: of the five words of the solution, the first reply has 7, 2, leaves, and the second 7, less, 5."""
    asked: Question = {"question": "How many?", "kind": "text", "printed_target": "7 less 2 leaves 5.", "id": "it"}
    replies = "From 7, 2 leaves... four. Answer: four", "5 figs: 7 less two. Answer: 5"
    values = scores(tmp_path, *replies, asked=asked)
    assert values == {"ROUGE-L recall": pytest.approx((3 / 5 + 3 / 5) / 2)}
    run = load_run(tmp_path / "run")
    assert [*observed("ROUGE-L recall", "one", {"one": run})] == [("it", values["ROUGE-L recall"])]
    show_measures([str(tmp_path / "run")], "round")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("| ROUGE-L recall | 1 | ") and not any("| measure |" in line for line in lines)
