"""The settings of CMD, and how agents are divided into groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Settings

LARGEST = 3
SECRETARY = "secretary"


def sizes_of(agents: int, largest: int = LARGEST) -> list[int]:
    """Sizes of groups, as equal as possible and none above `largest`: 7 agents are 3, 2 and 2."""
    number = -(-agents // largest)
    return [agents // number + (i < agents % number) for i in range(number)]


def grouped(agents: Sequence[str]) -> list[list[str]]:
    """Agents in consecutive groups of at most three (CMD, arXiv 2402.18272, section 3)."""
    groups, at = [], 0
    for size in sizes_of(len(agents)):
        groups.append(list(agents[at : at + size]))
        at += size
    return groups


class CMD(Settings):
    """Groups discuss in full, and hear of other groups only how many hold which view (CMD, arXiv 2402.18272)."""

    discusses: ClassVar[bool] = True
    default_temperature: ClassVar[float | None] = 0.25

    agents: int = Field(default=6, ge=1, description="how many agents, in groups of at most three")
    rounds: int = Field(default=3, ge=1, description="answers of each agent, the first included")
    secretary: bool = Field(default=True, description="ask a secretary at a tie; else groups send representatives")
    representative: Literal["tied", "first", "random"] = Field(
        default="tied", description="whom a group sends: the first with a tied answer, the first, or by lot"
    )
    strict: bool = Field(default=False, description="refuse numbers of agents that three does not divide, as published")

    def others(self) -> list[str]:
        """The secretary, who is asked at a tie alone."""
        return [SECRETARY] if self.secretary else []

    def groups(self) -> list[list[str]]:
        """Consecutive, as equal as possible, of at most three."""
        return grouped(self.speakers())

    def edges(self) -> list[tuple[str, str]]:
        """Messages stay within a group; the secretary reads them all, and representatives may meet anybody."""
        if not self.secretary:
            return super().edges()
        within = [(one, other) for group in self.groups() for one in group for other in group if one != other]
        return [*within, *((agent, SECRETARY) for agent in self.speakers())]

    def topology(self) -> tuple[str, ...]:
        """A node for each agent, and one for a secretary or for higher levels."""
        return *super().topology(), "a secretary" if self.secretary else "representatives"

    @model_validator(mode="after")
    def _sends_whom(self) -> CMD:
        if self.secretary and self.representative != "tied":
            raise UsageError(
                f"representative is {self.representative!r}, but a tie goes to the secretary; add --secretary off"
            )
        return self

    @model_validator(mode="after")
    def _by_three(self) -> CMD:
        if self.strict and self.agents % LARGEST:
            raise UsageError(f"agents is {self.agents}: expected a multiple of {LARGEST} where strict is set")
        return self
