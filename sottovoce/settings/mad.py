"""The settings of MAD."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.settings.base import Settings

SIDES = ("affirmative", "negative")


class MAD(Settings):
    """Two sides argue before a judge (MAD, Liang et al. 2023).

    A moderator can end the debate before the judge decides it.
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "moderate", "list_candidates", "judge")
    default_temperature: ClassVar[float | None] = 0.0

    agents: Agents = Field(default=2, ge=2, description="Number of debaters, not counting moderator and judge.")
    rounds: Rounds = Field(
        default=3, ge=1, description="Maximum number of rounds; the moderator may end the debate after any of them."
    )
    # Level 0 contradicts the negative's "you disagree", in the paper too, which measured it to show that it harms.
    disagreement: int = Field(
        default=2,
        ge=0,
        le=3,
        description="Disagreement asked of debaters: 0 (none), 1 (on most points), 2 (only for the sake of the right "
        "answer), 3 (on every point).",
    )
    judge_sees: Literal["all", "last", "first"] = Field(
        default="all", description="Rounds whose statements the judge reads: all, last or first."
    )

    def speakers(self) -> list[str]:
        """Return affirmative, negative, debater_3 .. debater_n, in the order in which they speak."""
        return [*SIDES, *(f"debater_{i + 1}" for i in range(2, self.agents))]

    def others(self) -> list[str]:
        """Return the moderator, and the judge, who is asked if the moderator names no answer."""
        return ["moderator", "judge"]
