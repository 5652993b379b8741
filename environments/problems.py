"""Problems of CodeGen: the tests that a solution must pass, and the bundled problems of `problems.yaml`.

Tests are a program that defines `check(candidate)`, as in HumanEval, or a list of `assert` statements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ConfigDict, Field, field_validator

from sottovoce.core.errors import UsageError
from sottovoce.core.validation import Checked

CHECKED = re.compile(r"^def check\(", re.MULTILINE)


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
