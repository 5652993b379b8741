"""The settings of GovSim's fishery."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from pydantic import Field

from sottovoce.core.any_types import JSONValue
from sottovoce.core.bounds import Few, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.environments.govsim.fishery import AGENTS, Allocation, Game
from sottovoce.environments.govsim.talk import MESSAGES
from sottovoce.settings.base import Settings
from sottovoce.settings.oversight import Per

NAMES = (*AGENTS, "Anna", "Paul", "Rose", "Mark", "Lucy")


class GovSim(Settings):
    """Agents fish in one lake, and talk each month (GovSim).

    They try to keep the fish alive (arXiv 2404.16698).
    """

    default_temperature: ClassVar[float | None] = 0.0
    shows_documents: ClassVar[bool] = False
    measured_at: ClassVar[str] = "tons"
    watched_from: ClassVar[int] = 1
    """The wishes of the first month follow no talk that could be repeated."""
    together: ClassVar[str] = "wish"
    acts: ClassVar[tuple[str, ...]] = ("talk", "summarise", "limit", "reflect", "wish")
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({"harvest": "the lake loses the fish, for good"})

    agents: int = Field(default=5, ge=2, le=len(NAMES), description="Number of agents that fish.")
    months: Few = Field(default=12, ge=1, description="Maximum number of months.")
    start: Few = Field(
        default=100, ge=1, description="Tons of fish in the first month, which is also the most that the lake can hold."
    )
    collapse: Few = Field(default=5, ge=1, description="All fish die out if fewer tons are left after a harvest.")
    allocation: Allocation = Field(
        default="stochastic",
        description="How fish are shared out when agents want more than there is: stochastic (ton by ton, at random) "
        "or proportional.",
    )
    language: bool = Field(
        default=True, description="Let agents talk after each harvest; off: they only see what everyone caught."
    )
    newcomer: Few | None = Field(default=None, ge=1, description="The last agent joins after this many months.")
    utterances: Few = Field(
        default=MESSAGES - 1,
        ge=1,
        description="Maximum number of utterances in a talk, besides the mayor's report.",
    )
    max_tokens: Tokens = Field(default=384, ge=1, description="Maximum length of a reply, in tokens.")

    def speakers(self) -> list[str]:
        """Return the agents that fish, the newcomer last."""
        return [*NAMES[: self.agents]]

    def others(self) -> list[str]:
        """Return the summarizer of each talk."""
        return ["summarizer"]

    def role_of(self, agent: str) -> str:
        """Return the role of an agent."""
        return agent if agent in self.others() else "fisher"

    @property
    def capped(self) -> Per:
        """All interventions together, since a month's wishes are checked as one."""
        return self.cap_per or "all"

    def check_game(self, question: Mapping[str, JSONValue]) -> None:
        """Refuse a game that cannot be played, or differs from the settings."""
        game = self.seated(question["game"])
        same = {name: getattr(game, name) for name in ("months", "start", "collapse", "allocation", "language")}
        self.check_levers({**same, "newcomer": game.newcomer_after})

    def seated(self, stored: Mapping[str, JSONValue]) -> Game:
        """Return a stored game with its agents replaced by those of the run, in order.

        Raises:
            UsageError: it is not a game, or has another number of agents.
        """
        game, speakers = Game.model_validate(stored), self.speakers()
        if (found := len(game.agents)) != len(speakers):
            raise UsageError(f"the game has {found} agents, but there are {len(speakers)}; use --agents {found}")
        return game.model_copy(update={"agents": speakers})

    def game(self, seed: str) -> Game:
        """Return the game of these settings.

        Raises:
            UsageError: it cannot be played.
        """
        return Game(
            start=self.start,
            seed=seed,
            agents=self.speakers(),
            months=self.months,
            collapse=self.collapse,
            allocation=self.allocation,
            language=self.language,
            newcomer_after=self.newcomer,
        )
