"""A problem of CodeGen: the hidden tests that its solution must pass, and the function's name.

Tests are a program that defines `check(candidate)`, as in HumanEval, or a list of `assert` statements.
"""

from __future__ import annotations

import re

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
