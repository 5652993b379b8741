"""The settings of MAD, ReConcile and CMD, and of CMD's algorithm for any rule that passes messages on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names
from sottovoce.settings.base import Settings, Voting

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


class ReConcile(Voting):
    """Agents vote, weighted by their confidence (ReConcile).

    They answer with a confidence, read all answers, and answer again (Chen et al. 2023).
    """

    agents: Agents = Field(default=3, ge=2, description="Number of agents; the paper uses three different models.")
    rounds: Rounds = Field(
        default=3, ge=0, description="Maximum number of rounds of discussion after the first answers."
    )
    vote: Literal["weighted", "plain"] = Field(
        default="weighted",
        description="Count votes weighted (by recalibrated confidence) or plain; the result of the other is reported "
        "too.",
    )
    convincing: Annotated[list[str], Names("file of convincing samples")] = Field(
        default=[], description="Files of convincing samples: one for each agent's model, or one for all."
    )

    @model_validator(mode="after")
    def _samples_fit(self) -> ReConcile:
        self.per_agent("convincing")
        return self


LARGEST = 3
SECRETARY = "secretary"


class CMD(Voting):
    """Groups discuss, and hear only tallies of others (CMD).

    A group hears how many members of other groups hold which view (arXiv 2402.18272).
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")
    default_temperature: ClassVar[float | None] = 0.25

    agents: Agents = Field(default=6, ge=1, description="Number of agents, in groups of at most three.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of answers of each agent, including the first.")
    secretary: bool = Field(
        default=True,
        description="Let a secretary decide a tie; otherwise groups send representatives to a higher level.",
    )
    representative: Literal["tied", "first", "random"] = Field(
        default="tied",
        description="Agent that a group sends: tied (the first with a tied answer), first (its first agent) or random.",
    )

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def groups(self) -> list[list[str]]:
        """Return the agents in consecutive groups of at most three, as equal as possible."""
        return grouped(self.speakers())

    def edges(self) -> list[tuple[str, str]]:
        """Return edges within groups and to the secretary; all edges without one: representatives may meet anybody."""
        if not self.secretary:
            return super().edges()
        within = [(one, other) for group in self.groups() for one in group for other in group if one != other]
        return [*within, *((agent, SECRETARY) for agent in self.speakers())]

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and secretary or representatives: each has a node."""
        return *super().topology(), "a secretary" if self.secretary else "representatives"

    @model_validator(mode="after")
    def _sends_whom(self) -> CMD:
        if self.secretary and self.representative != "tied":
            raise UsageError(
                f"representative is {self.representative!r}, but the secretary decides a tie; add --secretary off"
            )
        return self


class MesSync(Settings):
    """A rule passes messages on, round by round (CMD, arXiv 2402.18272, Algorithm 2)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")

    agents: Agents = Field(default=3, ge=1, description="Number of agents.")
    depth: Rounds = Field(
        default=100, ge=1, description="Maximum number of rounds; a rule that has not ended by then is an error."
    )
    secretary: bool = Field(default=False, description="Let a secretary decide a tie.")

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and if there is a secretary: each has a node."""
        return *super().topology(), f"{'a' if self.secretary else 'no'} secretary"


def grouped(agents: Sequence[str]) -> list[list[str]]:
    """Return consecutive groups of at most three, of nearly equal size: 7 are 3, 2 and 2 (CMD, section 3)."""
    number = -(-len(agents) // LARGEST)
    starts = [i * (len(agents) // number) + min(i, len(agents) % number) for i in range(number + 1)]
    return [list(agents[start:end]) for start, end in pairwise(starts)]
