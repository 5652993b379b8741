"""The settings of Debate."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.settings.base import Controlled, Voting

Order = Literal["others_first", "own_first"]
FinalRule = Literal["majority", "lowest_temperature", "average"]
Role = Literal["debater", "expert", "dummy"]


class Debate(Controlled, Voting):
    """Agents answer, read each other, answer again (Du, 2023)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "summarise")

    agents: Agents = Field(default=2, ge=1, description="Number of agents.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of rounds, including the first.")
    shape: Literal["history", "fresh"] = Field(
        default="history",
        description="Prompt of later rounds: history (a growing chat) or fresh (one prompt for each round, as in "
        "CIPHER).",
    )
    order: Order | None = Field(
        default=None,
        description="Repeat an agent's own answer after (others_first) or before (own_first) the others'. "
        "If not set: do not repeat it in a history; others_first in a fresh prompt.",
    )
    summarise: Literal["none", "each", "shared"] = Field(
        default="none",
        description="Summaries that agents read instead of answers: each (every agent sums up the others' answers) "
        "or shared (one summary of all answers).",
    )
    role: list[Role] = Field(
        default=[],
        description="Role of an agent: debater, expert (states the solution) or dummy (states the solution of another "
        "question). One for all agents, or one each.",
    )
    rule: FinalRule | None = Field(
        default=None,
        description="Decision rule: majority, lowest_temperature (the answer of that agent) or average (no answer; "
        "the share of right ones is the score). If not set: the protocol's.",
    )
    last_round: Literal["all", "deciding"] = Field(
        default="all",
        description="Agents that speak in the last round: all, or deciding (only the one with the lowest temperature).",
    )

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and if there is a shared summary: each has a node."""
        return *super().topology(), f"{'a' if self.summarise == 'shared' else 'no'} shared summary"

    def roles(self) -> dict[str, Role]:
        """Return the role of each agent."""
        return dict(zip(self.speakers(), self.per_agent("role") or ["debater"] * self.agents, strict=True))

    def needs(self) -> dict[str, str]:
        """Return the solution for experts and the decoys for dummies (CIPHER's bounds) or for the control."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return super().needs() | {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.per_agent("role")
        if self.last_round == "deciding" and self.rule in ("majority", "average"):
            raise UsageError(
                f"the rule {self.rule!r} reads all agents, but with last_round 'deciding' only one of them speaks; "
                "use --rule lowest_temperature or --last-round all"
            )
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None):
            raise UsageError(
                "summaries replace the others' answers in a chat; "
                "use --summarise with --shape history and without --order"
            )
        if self.agents == 1 and self.summarise != "none":
            raise UsageError("a debate of one agent has no answers to summarize; use --agents 2 or more")
        if self.control != "none" and (self.agents == 1 or self.summarise == "shared"):
            raise UsageError(
                f"the control {self.control!r} replaces messages that agents read from one another; "
                "use it with --agents 2 or more and without --summarise shared"
            )
        return self
