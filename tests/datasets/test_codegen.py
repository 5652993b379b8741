"""Problems of CodeGen as questions of a run: those that ship, rows of HumanEval, and a run told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.analysis.symmetry import Looked, show_symmetry
from sottovoce.core.errors import UsageError
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.environments.problems import Problem
from sottovoce.environments.sandbox import why_not
from sottovoce.runs.read import load_run
from sottovoce.settings import CodeGen, Debate, Settings
from tests.cli.screen import printed
from tests.graphs.coding import block, reviews
from tests.runs import schemes

ROW = {
    "task_id": "HumanEval/0",
    "prompt": 'def twice(n):\n    """Two times n."""\n',
    "canonical_solution": "    return 2 * n\n",
    "test": "\n\ndef check(candidate):\n    assert candidate(2) == 4\n",
    "entry_point": "twice",
}


def asked(settings: Settings | None = None, **options: Any) -> Any:
    return questions_of(QuestionOptions(**options), settings or CodeGen())


def test_problems_are_what_is_asked_where_nothing_else_is() -> None:
    (question,), origin = asked()
    assert question["id"] == "problems/0/0" and question["question"].startswith("def double_all(")
    assert question["kind"] == "text" and "target" not in question
    assert origin.words == "sample problems/0 made from a seed"


def test_a_seed_mixes_all_of_them_and_there_are_no_more() -> None:
    first, other = (asked(sample=f"problems/{seed}", limit=16)[0] for seed in (0, 1))
    names = [[each["game"]["entry_point"] for each in found] for found in (first, other)]
    assert names[0] != names[1] and sorted(names[0]) == sorted(names[1])
    with pytest.raises(UsageError, match="--limit is 17; --sample problems has at most 16 different ones"):
        asked(limit=17)


@pytest.mark.parametrize(
    ("settings", "name", "said"),
    [
        (Debate(), "problems", "--sample problems cannot be used here; --sample problems belongs to"),
        (CodeGen(), "arithmetic", "--sample arithmetic cannot be used here; --sample problems belongs to"),
    ],
)
def test_problems_are_for_codegen_and_other_samples_are_not(settings: Settings, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(settings, sample=name)


def test_rows_of_humaneval_are_problems(tmp_path: Path) -> None:
    path = tmp_path / "humaneval.jsonl"
    path.write_text(json.dumps({**ROW, "split": "test"}) + "\n")
    (question,), origin = asked(questions=path)
    assert (question["id"], question["question"], question["kind"]) == ("HumanEval/0", ROW["prompt"], "text")
    assert question["solution"] == ROW["prompt"] + ROW["canonical_solution"]
    assert Problem.model_validate(question["game"]).program.endswith("check(twice)\n")
    assert origin.metadata == {"HumanEval/0": {"split": "test"}}


def test_a_question_of_ones_own_is_answered_with_a_program() -> None:
    (question,), _ = asked(question="Write a function add(a, b).")
    assert question["kind"] == "text"


def test_a_run_is_told_round_by_round_with_tests_and_what_the_best_solution_came_to(tmp_path: Path) -> None:
    if why := why_not("limits"):
        pytest.skip(f"no program can be run here: {why}")
    settings = CodeGen(agents=2, rounds=2, sandbox="isolated", unsafe=True, seconds=20)
    minus, times = (f"def double_all(numbers):\n    return [number {sign} 2 for number in numbers]" for sign in "-*")
    replies = {
        "PythonAssistant": [block(minus), block(minus, "[[1, 2, 3]]")],
        "AlgorithmDeveloper": [block(times), block(times, "[[1, 2, 3]]")],
        "Tester": ["assert double_all([3]) == [6]"],
        "Reflector": [reviews("Fine.", "Fine.")],
        "Ranker": ["[1, 2]"],
    }
    run = schemes.held(settings, replies, tmp_path, question=asked(settings)[0][0])

    for shown in (printed(each, 120) for each in (run, load_run(tmp_path / "run").only)):
        for text in (
            "2 coders, at most 2 rounds · sandbox: isolated, unsafe", "Before round 2", "─ Passer",
            "(PythonAssistant): runs",
            "assert double_all([3]) == [6]: [1]", "ranked best: 1, 2", "helped by Passer 1, Tester 2, Reflector 3",
            "by tests: AlgorithmDeveloper's solution passes 1 of 1 tests; it solves the problem",
        ):  # fmt: skip
            assert text in " ".join(shown.split())
    assert run.decision is not None and run.decision["measures"] == {"pass": 1.0}


def test_why_it_has_no_symmetry_is_told() -> None:
    with pytest.raises(UsageError, match="codegen has no symmetries to show: in a world, messages depend"):
        show_symmetry("codegen", CodeGen(), Looked())
