"""The settings of CodeGen."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from sottovoce.core.any_types import JSONValue
from sottovoce.core.bounds import LONGEST_PROGRAM, Rounds, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names
from sottovoce.environments.problems import Problem
from sottovoce.prompts.kinds import KindName
from sottovoce.settings.base import Settings
from sottovoce.settings.oversight import Per

CODERS = ("PythonAssistant", "AlgorithmDeveloper", "ComputerScientist", "Programmer")
PASSER, TESTER, REFLECTOR, RANKER = "Passer", "Tester", "Reflector", "Ranker"


class CodeGen(Settings):
    """Coders write a program; judges test and rank it (CodeGen).

    Judges also review it, and coders rewrite it (arXiv 2502.05986).
    """

    default_temperature: ClassVar[float | None] = 0.0
    shows_documents: ClassVar[bool] = False
    measured_at: ClassVar[str] = "scores"
    answers_in: ClassVar[KindName | None] = "text"
    watched_from: ClassVar[int] = 1
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({"run": "the program is submitted, and run with the tests"})

    sandbox: Annotated[str | None, Names("sandbox", opens=False)] = Field(
        default=None,
        description="Where to run programs that models write: isolated (the first of the next three that "
        "works here), bwrap, podman[:IMAGE], docker[:IMAGE], or limits, which isolates nothing. Required.",
    )
    unsafe: Annotated[bool, Names("sandbox", opens=False)] = Field(
        default=False, description="Run programs even without isolation, under resource limits alone."
    )
    seconds: Annotated[float, Names("time limit", opens=False)] = Field(
        default=5.0,
        gt=0,
        le=LONGEST_PROGRAM,
        allow_inf_nan=False,
        description="Maximum run time of a program for one test, in seconds.",
    )
    agents: int = Field(
        default=4, ge=2, le=len(CODERS), description="Number of coders, not counting Tester, Reflector and Ranker."
    )
    rounds: Rounds = Field(
        default=3, ge=1, description="Maximum number of rounds; judges speak before each one except the first."
    )
    consensus: bool = Field(
        default=True,
        description="End after a round, except the first, in which more than two thirds of the coders write similar "
        "programs (BLEU of 90 or more).",
    )
    max_tokens: Tokens = Field(default=1024, ge=1, description="Maximum length of a reply, in tokens.")

    def speakers(self) -> list[str]:
        """Return the coders."""
        return [*CODERS[: self.agents]]

    def others(self) -> list[str]:
        """Return the judges that are models; Passer is a tool."""
        return [TESTER, REFLECTOR, RANKER]

    def edges(self) -> list[tuple[str, str]]:
        """Return edges from coders to all, and from the Reflector to coders; tests and ranks are sent as text."""
        return [*super().edges(), *((REFLECTOR, coder) for coder in self.speakers())]

    def approvable(self) -> list[str]:
        """Return the coders: judges' replies are used without approval."""
        return self.speakers()

    @property
    def capped(self) -> Per:
        """Each coder in each round, as in the paper's code."""
        return self.cap_per or "turn"

    def check_game(self, question: Mapping[str, JSONValue]) -> None:
        """Refuse what is not a problem."""
        Problem.model_validate(question["game"])

    @model_validator(mode="after")
    def _somewhere(self) -> CodeGen:
        if self.unsafe and self.sandbox is None:
            raise UsageError("--unsafe needs a sandbox, but none is set; add --sandbox isolated, or leave it out")
        return self
