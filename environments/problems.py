"""Problems of CodeGen, and the runner of their tests on solutions in a sandbox.

The tests of a problem are a program that defines `check(candidate)`, as in HumanEval, or a list of `assert` statements.
Bundled problems are in `problems.yaml`.
"""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from sottovoce.core.errors import UsageError
from sottovoce.core.validation import Checked
from sottovoce.environments import sandbox
from sottovoce.environments.codegen import statements
from sottovoce.environments.harness import SEEN
from sottovoce.environments.sandbox import Outcome

CHECKED = re.compile(r"^def check\(", re.MULTILINE)
AT_ONCE = 4  # programs that run in parallel
T = TypeVar("T")


class Problem(Checked):
    """A problem as in the field `game` of a question.

    Raises:
        UsageError: a field is missing, has another type or is not a name, or there are no tests.
    """

    model_config = ConfigDict(title="problem", extra="forbid", frozen=True, strict=True)

    test: str | list[str] = Field(min_length=1)
    entry_point: str
    """Name of the requested function."""

    @field_validator("entry_point")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not name.isidentifier():
            raise UsageError(f"entry_point is {name!r}; expected the name of a function")
        return name

    @property
    def program(self) -> str:
        """The program that runs after a solution and raises an exception if it is wrong."""
        text = self.test if isinstance(self.test, str) else "\n".join(self.test)
        return f"{text}\ncheck({self.entry_point})\n" if CHECKED.search(text) else f"{text}\n"


@dataclass(frozen=True)
class BundledProblem:
    """One bundled problem."""

    name: str
    """Name of the function."""
    prompt: str
    """Text for agents: the start of a function, with a docstring of what it does."""
    body: str
    """A solution: the rest of the function."""
    tests: tuple[str, ...]
    """Hidden tests: expressions that are true for a correct solution."""


@cache
def bundled_problems() -> tuple[BundledProblem, ...]:
    """Return the bundled problems, easy ones first."""
    import yaml  # late: `--help` does not need it

    found = []
    for entry in yaml.safe_load(Path(__file__).with_name("problems.yaml").read_text(encoding="utf-8")):
        prompt = f'def {entry["function"]}:\n    """{entry["description"]}"""\n'
        body = "".join(f"    {line}\n" for line in entry["solution"].split("\n"))
        found.append(BundledProblem(entry["function"].partition("(")[0], prompt, body, tuple(entry["tests"])))
    return tuple(found)


Runner = Callable[[str], Outcome]
"""Function that runs a program: the sandbox's `run` with limits and a backend, or a scripted one."""


@dataclass(frozen=True)
class Report:
    """The test results of a solution."""

    passed: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Pairs of a test and the repr of the actual value, or the error in one line."""


@cache
def harness() -> str:
    """Return the source of the harness that runs in the sandbox."""
    return Path(__file__).with_name("harness.py").read_text(encoding="utf-8")


def report(solution: str, tests: Iterable[str], run: Runner) -> Report:
    """Run each test of a solution in a separate process, so that a hanging test does not affect the others.

    Raises:
        UsageError: the sandbox refused; this does not count as a failed test.
    """
    found = [(test, tried(solution, watched(test), run)) for test in tests]
    passed = tuple(test for test, actual in found if actual is None)
    return Report(passed, tuple((test, actual) for test, actual in found if actual is not None))


def tried(solution: str, program: str, run: Runner) -> str | None:
    """Run a program after a solution, with access to its names; return None, or the error in one line.

    Raises:
        UsageError: the sandbox refused.
    """
    word = secrets.token_hex(16)
    outcome = run(f"{harness()}\n\nmain({solution!r}, {program!r}, {word!r})\n")
    if outcome.status == "refused":
        raise UsageError(f"tests cannot be run: {outcome.reason}")
    _, said, verdict = outcome.stdout.rpartition(f"\n{word}")
    if outcome.status != "ok" or not said:
        return escaped(outcome.reason) or "it ended before the test did"
    if verdict == "passed\n":
        return None
    how, _, actual = verdict.removesuffix("\n").partition(" ")
    return escaped(actual) if how == "failed" and actual else "it broke how its verdict is written"


def escaped(text: str) -> str:
    """Return an untrusted text in one line, with nonprintable characters escaped as in Python."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def watched(test: str) -> str:
    """Return a test that records the value it checks: the left side of a comparison, or the whole expression."""
    statement = next(iter(statements(test) or []), None)
    assert isinstance(statement, ast.Assert), "tests are read by `codegen.assertions`"
    tested, name = statement.test, ast.Subscript(ast.Name(SEEN), ast.Constant("value"))
    if isinstance(tested, ast.Compare) and len(tested.ops) == 1:
        looked_at, tested.left = tested.left, name
    else:
        looked_at, statement.test = tested, name
    return f"{ast.unparse(name)} = {ast.unparse(looked_at)}\n{ast.unparse(statement)}\n"


class Review(TypedDict):
    """The judges' findings about a solution."""

    agent: str
    """Its author."""
    error: str
    """Why it does not run at all; empty if it runs."""
    passed: list[str]
    failed: list[list[str]]
    """Pairs of a test and the solution's result."""
    reflection: list[int] | None
    """The span of its review in the Reflector's reply, in characters; None if none could be read."""


def review_lines(reviews: list[Review], tests: list[str]) -> list[str]:
    """Return lines for display: the number of tests that each solution passes, and its results on failed ones."""
    if not tests:
        return ["no tests could be read"]
    lines = list[str]()
    for number, review in enumerate(reviews, 1):
        lines.append(f"{number} ({review['agent']}): passes {len(review['passed'])} of {len(tests)}")
        lines += [f"  {test}: {actual}" for test, actual in review["failed"]]
    return lines


def uncontained(backend: str | None, run: Runner, *, unsafe: bool) -> list[str]:
    """Return a note, before anything runs, on the dangers that the sandbox does not contain.

    Raises:
        UsageError: no sandbox is set, or it is not available.
    """
    if backend is None:
        offers = "; ".join(f"{name} ({what})" for name, what in sandbox.described())
        raise UsageError(
            "codegen runs programs that models write, but no sandbox was named; add `sandbox='isolated'` (the first of "
            f"bwrap, podman and docker that is available), or one of these: {offers}; that one also needs `unsafe=True`"
        )
    outcome = run("")
    if outcome.status != "ok":
        why = outcome.reason or outcome.stderr.strip().partition("\n")[0]
        raise UsageError(f"codegen cannot run programs in the sandbox {backend!r}: {why}")
    alone = sandbox.choice(backend, unsafe) == "limits"
    return [f"programs of models run with limits alone; not contained: {sandbox.EXPOSED}"] if alone else []


def of_each(look: Callable[[str], T], solutions: Mapping[str, str]) -> dict[str, T]:
    """Return `look` of each solution, some in parallel; equal solutions are processed once."""
    distinct = list(dict.fromkeys(solutions.values()))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(distinct, pool.map(look, distinct), strict=True))
    return {coder: found[solution] for coder, solution in solutions.items()}
