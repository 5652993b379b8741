"""Solutions put to the test in a sandbox: which tests pass, and what came out where they do not."""

from __future__ import annotations

import ast
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sottovoce.environments.codegen import statements
from sottovoce.environments.sandbox import Outcome
from sottovoce.environments.trial import SEEN
from sottovoce.errors import UsageError

Runner = Callable[[str], Outcome]
"""Runs a program: the sandbox's `run` with limits and a backend, or a script's."""


@dataclass(frozen=True)
class Failed:
    """A test that a solution does not pass."""

    test: str
    actual: str
    """What it gave instead, as Python writes it, or the error in one line."""


@dataclass(frozen=True)
class Report:
    """What tests say of a solution."""

    passed: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()


@cache
def harness() -> str:
    """The source of what runs inside."""
    return Path(__file__).with_name("trial.py").read_text(encoding="utf-8")


def report(solution: str, tests: Iterable[str], run: Runner) -> Report:
    """Each test on a solution, in a process of its own: one that never ends costs no other its verdict.

    Raises:
        UsageError: the sandbox refused; a solution is not called wrong for that.
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
    """What a solution gave instead of what a test expects; None where it passes."""
    return tried(solution, watched(test), run)


def tried(solution: str, program: str, run: Runner) -> str | None:
    """What goes wrong as a program runs behind a solution, whose names it has: None, or the error in one line.

    Raises:
        UsageError: the sandbox refused.
    """
    word = secrets.token_hex(16)
    outcome = run(f"{harness()}\n\nmain({solution!r}, {program!r}, {word!r})\n")
    if outcome.status == "refused":
        raise UsageError(f"tests cannot be run: {outcome.reason}")
    _, said, verdict = outcome.stdout.rpartition(f"\n{word}")
    if outcome.status != "ok" or not said:
        return printable(outcome.reason) or "it ended before the test did"
    if verdict == "passed\n":
        return None
    how, _, actual = verdict.removesuffix("\n").partition(" ")
    return printable(actual) if how == "failed" and actual else "it broke how its verdict is written"


def printable(text: str) -> str:
    """Return a stranger's text in one line, with signs that are not printed as Python writes them."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def watched(test: str) -> str:
    """A test that keeps what it looks at: the left side of a comparison, or all of what it asserts."""
    statement = next(iter(statements(test) or []), None)
    assert isinstance(statement, ast.Assert), "tests are read by `codegen.assertions`"
    asked = statement.test
    simple = isinstance(asked, ast.Compare) and len(asked.ops) == 1
    looked_at = asked.left if isinstance(asked, ast.Compare) and simple else asked
    name = ast.Subscript(ast.Name(SEEN), ast.Constant("value"))
    if isinstance(asked, ast.Compare) and simple:
        asked.left = name
    else:
        statement.test = name
    return f"{ast.unparse(name)} = {ast.unparse(looked_at)}\n{ast.unparse(statement)}\n"
