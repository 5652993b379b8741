"""The test runner for solutions in a sandbox: the tests that pass, and the results of those that fail."""

from __future__ import annotations

import ast
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sottovoce.core.errors import UsageError
from sottovoce.environments.codegen import statements
from sottovoce.environments.harness import SEEN
from sottovoce.environments.sandbox import Outcome

Runner = Callable[[str], Outcome]
"""Function that runs a program: the sandbox's `run` with limits and a backend, or a scripted one."""


@dataclass(frozen=True)
class Failed:
    """A test that a solution does not pass."""

    test: str
    actual: str
    """The repr of the actual value, or the error in one line."""


@dataclass(frozen=True)
class Report:
    """The test results of a solution."""

    passed: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()


@cache
def harness() -> str:
    """Return the source of the harness that runs in the sandbox."""
    return Path(__file__).with_name("harness.py").read_text(encoding="utf-8")


def report(solution: str, tests: Iterable[str], run: Runner) -> Report:
    """Run each test of a solution in a separate process, so that one that hangs does not affect the others.

    Raises:
        UsageError: the sandbox refused; this does not count as a failed test.
    """
    passed, failed = list[str](), list[Failed]()
    for test in tests:
        actual = missed(solution, test, run)
        if actual is None:
            passed.append(test)
        else:
            failed.append(Failed(test, actual))
    return Report(tuple(passed), tuple(failed))


def missed(solution: str, test: str, run: Runner) -> str | None:
    """Return the actual value or error of a solution that fails a test; None if it passes."""
    return tried(solution, watched(test), run)


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
    tested = statement.test
    simple = isinstance(tested, ast.Compare) and len(tested.ops) == 1
    looked_at = tested.left if isinstance(tested, ast.Compare) and simple else tested
    name = ast.Subscript(ast.Name(SEEN), ast.Constant("value"))
    if isinstance(tested, ast.Compare) and simple:
        tested.left = name
    else:
        statement.test = name
    return f"{ast.unparse(name)} = {ast.unparse(looked_at)}\n{ast.unparse(statement)}\n"
