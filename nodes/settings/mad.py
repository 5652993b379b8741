"""The settings of MAD."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from sottovoce.nodes.settings.base import Settings

SIDES = ("affirmative", "negative")


class MAD(Settings):
    """Two sides argue in turn before a moderator, who ends it; a judge decides if it does not (Liang et al. 2023)."""

    discusses: ClassVar[bool] = True
    default_temperature: ClassVar[float | None] = 0.0

    agents: int = Field(default=2, ge=2, description="how many debaters; moderator and judge come on top")
    rounds: int = Field(default=3, ge=1, description="rounds, at most: the moderator may end it after any")
    # Level 0 contradicts the negative's "you disagree", in the paper too: it was measured to show that it harms.
    disagreement: int = Field(
        default=2,
        ge=0,
        le=3,
        description="asked of debaters: 0 none, 1 most points, 2 for the right answer, 3 every point",
    )
    judge_sees: Literal["all", "last", "first"] = Field(
        default="all", description="which rounds' statements the judge reads"
    )

    def speakers(self) -> list[str]:
        """affirmative, negative, then debater_3 .. debater_n, in the order in which they speak."""
        return [*SIDES, *(f"debater_{i + 1}" for i in range(2, self.agents))]

    def others(self) -> list[str]:
        """The moderator, and the judge who is asked where it names no answer."""
        return ["moderator", "judge"]
