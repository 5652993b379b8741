"""A problem of CodeGen: the tests that its solution must pass, which no agent reads, and the function's name.

Two shapes: HumanEval's, a program that defines `check(candidate)`, or a list of `assert ...`.
"""

from __future__ import annotations

import re

from pydantic import ConfigDict, Field, field_validator

from sottovoce.checked import Checked
from sottovoce.errors import UsageError

CHECKED = re.compile(r"^def check\(", re.MULTILINE)


class Problem(Checked):
    """As a question's field `game` has it.

    Raises:
        UsageError: a field is missing, of another type or no name; or there is no test.
    """

    model_config = ConfigDict(title="problem", extra="forbid", frozen=True, strict=True)

    test: str | list[str] = Field(min_length=1)
    entry_point: str
    """The function that is asked for."""

    @field_validator("entry_point")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not name.isidentifier():
            raise UsageError(f"entry_point is {name!r}; expected the name of a function")
        return name

    @property
    def program(self) -> str:
        """What runs behind a solution, and raises where that is wrong."""
        text = self.test if isinstance(self.test, str) else "\n".join(self.test)
        return f"{text}\ncheck({self.entry_point})\n" if CHECKED.search(text) else f"{text}\n"
