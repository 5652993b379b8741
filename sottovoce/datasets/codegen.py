"""CodeGen problems as questions: the bundled ones, and rows of HumanEval.

A row (github.com/openai/human-eval): {"task_id": "HumanEval/0", "prompt": "def f(x):...", "canonical_solution":
"    return x", "test": "def check(candidate):...", "entry_point": "f"}. Agents see neither its test nor its solution.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from sottovoce.datasets.games import World
from sottovoce.environments.game_file import Split
from sottovoce.environments.problems import BundledProblem, bundled_problems
from sottovoce.nodes.question import Question
from sottovoce.settings import CodeGen

ROW = {"prompt": "question", "task_id": "id"}
"""Our names for the columns of such a row; `test` and `entry_point` make up the problem."""
PROBLEM = ("test", "entry_point")


def problems(n: int, settings: CodeGen, seed: int = 0, split: Split | None = None) -> list[Question]:
    """Return the first `n` bundled problems: easy ones first for seed 0, else shuffled by the seed."""
    order = [*bundled_problems()]
    if seed:
        random.Random(f"problems/{seed}").shuffle(order)
    return [_question(f"problems/{seed}/{i}", problem) for i, problem in enumerate(order[:n])]


def of_row(values: Mapping[str, Any]) -> dict[str, Any]:  # Any: JSON
    """Return a HumanEval row with our names for its columns; return any other row unchanged."""
    if "question" in values or not {"prompt", *PROBLEM} <= set(values):
        return dict(values)
    found = {ROW.get(name, name): value for name, value in values.items() if name not in PROBLEM}
    if isinstance(body := found.pop("canonical_solution", None), str):
        found["solution"] = f"{values['prompt']}{body}"
    return {"kind": "text", **found, "game": {name: values[name] for name in PROBLEM}}


def _question(id: str, problem: BundledProblem) -> Question:
    tests = [f"assert {test}" for test in problem.tests]
    return Question(
        id=id,
        question=problem.prompt,
        kind="text",
        solution=f"{problem.prompt}{problem.body}",
        game={"test": tests, "entry_point": problem.name},
    )


WORLD = World(
    samples={"problems": "small functions to write, with hidden tests; for the scheme codegen"},
    draw=problems,
    most={"problems": len(bundled_problems())},
)
