"""The settings of a debate."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Settings

Order = Literal["others_first", "own_first"]
FinalRule = Literal["majority", "lowest_temperature", "average"]
Role = Literal["debater", "expert", "dummy"]


class Debate(Settings):
    """Several agents answer, read one another's answers, and answer again (Du et al. 2023)."""

    discusses: ClassVar[bool] = True

    agents: int = Field(default=2, ge=1, description="how many agents")
    rounds: int = Field(default=3, ge=1, description="rounds, the independent answers included")
    shape: Literal["history", "fresh"] = Field(
        default="history", description="a chat that grows, or one prompt a round (CIPHER)"
    )
    order: Order | None = Field(
        default=None, description="restate the own answer after or before the others' (fresh: others first)"
    )
    summarise: Literal["none", "each", "shared"] = Field(
        default="none", description="agents read a summary: of the others' answers each, or one of all answers"
    )
    role: list[Role] = Field(
        default=[], description="debater, expert (knows the solution) or dummy (says another one); one each"
    )
    rule: FinalRule | None = Field(default=None, description="how it is decided; the protocol's own rule if not given")
    last_round: Literal["all", "deciding"] = Field(
        default="all", description="who speaks last: all, or only the deciding agent"
    )

    def topology(self) -> tuple[str, ...]:
        """A node for each agent, and one for a shared summary."""
        return *super().topology(), f"{'a' if self.summarise == 'shared' else 'no'} shared summary"

    def roles(self) -> dict[str, Role]:
        """What each agent plays."""
        return dict(zip(self.speakers(), self.each("role") or ["debater"] * self.agents, strict=True))

    def needs(self) -> dict[str, str]:
        """An expert says the solution, a dummy a decoy (CIPHER's bounds)."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.each("role")
        if self.last_round == "deciding" and self.rule in ("majority", "average"):
            raise UsageError(
                f"the rule {self.rule!r} looks at all agents, but last_round 'deciding' lets one of them speak; "
                "use --rule lowest_temperature or --last-round all"
            )
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None):
            raise UsageError(
                "summaries stand in the place of the others' answers in a chat; "
                "use --summarise with --shape history and without --order"
            )
        if self.agents == 1 and self.summarise != "none":
            raise UsageError("a debate of one agent has no answers to sum up; give --agents 2 or more")
        return self
