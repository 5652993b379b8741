"""Programming data sets; their tests and solutions are hidden from agents, and tests run only in a sandbox."""

from __future__ import annotations

import json
import re

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.datasets.data_set import DataSet, Fields, Row
from sottovoce.datasets.table_reader import json_of
from sottovoce.environments.problems import Problem

METHOD = re.compile(r"class\s+Solution\b.*?def\s+(\w+)\s*\(", re.DOTALL)
FUNCTION = re.compile(r"^def\s+(\w+)\s*\(", re.MULTILINE)
TYPES = "from typing import Dict, List, Optional, Tuple"
"""Imports that starter code relies on."""


def _humaneval(row: Row) -> Fields:
    for name in ("prompt", "test", "entry_point"):
        row.text(name)
    values = row.values
    fields: Fields = {"question": values["prompt"], "game": {name: values[name] for name in ("test", "entry_point")}}
    if isinstance(body := values.get("canonical_solution"), str):
        fields["solution"] = f"{values['prompt']}{body}"
    Problem.model_validate(fields["game"])
    return fields


def _livecodebench(row: Row) -> Fields:
    """Read a row that asks for a function or method; programs that read standard input cannot be tested."""
    starter = str(row.values.get("starter_code") or "").strip()
    if not starter:
        raise UsageError("it reads standard input, which CodeGen does not provide; use the part 'functional'")
    tests = [*_tests(row, "public_test_cases"), *([] if row.part == "public" else _tests(row, "private_test_cases"))]
    entry, call = _entry_point(starter)
    lines = "".join(f"    assert {call}(*{args!r}) == {wanted!r}\n" for args, wanted in tests)
    game = {"test": f"def check(candidate):\n{lines}", "entry_point": entry}
    Problem.model_validate(game)
    return {"question": f"{row.text('question_content')}\n\n{TYPES}\n\n{starter}", "game": game}


def _entry_point(starter: str) -> tuple[str, str]:
    """Return the name that the starter code defines, and a test's expression that calls it."""
    if found := METHOD.search(starter):
        return "Solution", f"candidate().{found[1]}"
    if found := FUNCTION.search(starter):
        return found[1], "candidate"
    raise UsageError(f"starter_code is {starter!r}; expected the beginning of a function, or of a class Solution")


def _tests(row: Row, column: str) -> list[tuple[list[JSONValue], JSONValue]]:
    """Return pairs of arguments (one line of JSON each) and expected result."""
    given = row.get(column)
    if isinstance(given, str) and given.lstrip()[:1] != "[":
        raise UsageError(
            f"{column} are packed as a pickle, which could run code and is not opened; "
            "give them as JSON, or use the part public, with only the public tests"
        )
    cases = json_of(given, column) if isinstance(given, str) else given
    try:
        return [([*map(json.loads, each["input"].split("\n"))], json.loads(each["output"])) for each in cases]
    except (TypeError, KeyError, ValueError, AttributeError):
        raise UsageError(f"{column} contain no inputs and outputs in JSON; expected [{{input, output}}, ...]") from None


FUNCTIONS = {"functional": "functions only, with all tests", "public": "functions only, with only the public tests"}
HUMANEVAL = DataSet(
    "humaneval",
    "functions to write, with hidden tests (HumanEval)",
    "text",
    {"task_id": "HumanEval/0", "prompt": "def f(x):", "canonical_solution": "...", "test": "...", "entry_point": "f"},
    _humaneval,
    {"test": 164},
    "pass@1",
    own_id=("task_id",),
    needs="codegen --sandbox",
)
LIVECODEBENCH = DataSet(
    "livecodebench",
    "problems of programming contests (LiveCodeBench, release v5); only those that ask for a function",
    "text",
    {"question_id": "...", "question_content": "...", "starter_code": "...", "public_test_cases": "[...]"},
    _livecodebench,
    {"release_v5": 880},
    "pass@1",
    parts=FUNCTIONS,
    own_id=("question_id",),
    metadata=("difficulty", "contest_date"),
    # a program, which reads standard input
    passes_over=lambda row: row.part in FUNCTIONS and not str(row.values.get("starter_code") or "").strip(),
    needs="codegen --sandbox",
)
