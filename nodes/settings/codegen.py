"""The settings of CodeGen."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from sottovoce.bounds import LONGEST_PROGRAM, Rounds, Tokens
from sottovoce.environments.problem import Problem
from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Documents, Settings
from sottovoce.nodes.settings.watched import Per
from sottovoce.prompts.kinds import KindName
from sottovoce.trust import Names

CODERS = ("PythonAssistant", "AlgorithmDeveloper", "ComputerScientist", "Programmer")
PASSER, TESTER, REFLECTOR, RANKER = "Passer", "Tester", "Reflector", "Ranker"


class CodeGen(Settings):
    """Coders write a program, judges test, criticise and rank it, and coders write it anew (CodeGen, 2502.05986)."""

    default_temperature: ClassVar[float | None] = 0.0
    sample: ClassVar[str] = "problems"
    world: ClassVar[str] = "sottovoce.evaluation.codegen:WORLD"
    positions: ClassVar[str] = "scores"
    unrolls: ClassVar[str] = "in a world, what is heard depends on what was done before"
    answers_in: ClassVar[KindName | None] = "text"
    watched_from: ClassVar[int] = 1
    deeds: ClassVar[Mapping[str, str]] = MappingProxyType({"run": "the program is handed in, and run with the tests"})

    sandbox: Annotated[str | None, Names("sandbox", opens=False)] = Field(
        default=None,
        description="where programs of models are run: isolated (the first of the next two that is there), bwrap, "
        "namespaces, docker[:IMAGE], or limits, which isolates nothing; it must be named",
    )
    unsafe: Annotated[bool, Names("sandbox", opens=False)] = Field(
        default=False, description="run them even where nothing but limits contains them"
    )
    seconds: Annotated[float, Names("time limit", opens=False)] = Field(
        default=5.0,
        gt=0,
        le=LONGEST_PROGRAM,
        allow_inf_nan=False,
        description="longest run of a program for one test, in seconds",
    )
    agents: int = Field(
        default=4, ge=2, le=len(CODERS), description="how many coders; Tester, Reflector and Ranker come on top"
    )
    rounds: Rounds = Field(default=3, ge=1, description="rounds, at most; judges speak before each but the first")
    consensus: bool = Field(
        default=True,
        description="end after a round, but for the first, in which more than two thirds of the coders write alike "
        "(BLEU of 90 or more)",
    )
    max_tokens: Tokens = Field(default=1024, ge=1, description="longest reply, in tokens")

    def speakers(self) -> list[str]:
        """The coders."""
        return [*CODERS[: self.agents]]

    def others(self) -> list[str]:
        """The judges that a model plays; Passer is a tool."""
        return [TESTER, REFLECTOR, RANKER]

    def edges(self) -> list[tuple[str, str]]:
        """Judges and coders hear coders, and coders hear the Reflector; tests and ranks are words."""
        return [*super().edges(), *((REFLECTOR, coder) for coder in self.speakers())]

    def heard(self) -> list[str]:
        """The coders: all judges' words are put together as they are said."""
        return self.speakers()

    @property
    def capped(self) -> Per:
        """Each coder in each round (the paper's code)."""
        return self.cap_per or "turn"

    def dealt(self, documents: Documents) -> Documents:
        """None are shown: the problem says all."""
        return []

    def check_game(self, question: Mapping[str, Any]) -> None:  # Any: fields of a `Question`
        """It must be a problem."""
        Problem.model_validate(question["game"])

    @model_validator(mode="after")
    def _somewhere(self) -> CodeGen:
        if self.unsafe and self.sandbox is None:
            raise UsageError("--unsafe is of a sandbox, and none was named; add --sandbox isolated, or drop it")
        return self
