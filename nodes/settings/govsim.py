"""The settings of GovSim's fishery."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import Field

from sottovoce.bounds import Few, Tokens
from sottovoce.environments.govsim.games import AGENTS, Allocation, Game
from sottovoce.environments.govsim.talk import MESSAGES
from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Documents, Settings
from sottovoce.nodes.settings.watched import Per

NAMES = (*AGENTS, "Anna", "Paul", "Rose", "Mark", "Lucy")


class GovSim(Settings):
    """Agents who fish in one lake talk each month, so that it may feed them for long (GovSim, arXiv 2404.16698)."""

    default_temperature: ClassVar[float | None] = 0.0
    sample: ClassVar[str] = "govsim"
    world: ClassVar[str] = "sottovoce.evaluation.govsim:WORLD"
    positions: ClassVar[str] = "tons"
    unrolls: ClassVar[str] = "in a world, who acts and what is heard depends on what was done before"
    watched_from: ClassVar[int] = 1
    """The first month's wishes have no talk before them that could be held again."""
    together: ClassVar[str] = "wish"
    acts: ClassVar[tuple[str, ...]] = ("talk", "summarise", "limit", "reflect", "wish")
    deeds: ClassVar[Mapping[str, str]] = MappingProxyType({"harvest": "so much is taken from the lake, for good"})

    agents: int = Field(default=5, ge=2, le=len(NAMES), description="how many fish in the lake")
    months: Few = Field(default=12, ge=1, description="months of the game, at most")
    start: Few = Field(
        default=100, ge=1, description="tons of fish in the first month, and the most that the lake holds"
    )
    collapse: Few = Field(default=5, ge=1, description="with fewer tons after a harvest all fish die out")
    allocation: Allocation = Field(
        default="stochastic",
        description="who gets what where more is wanted than there is: ton by ton at random, or by shares",
    )
    language: bool = Field(default=True, description="talk after each harvest; off: they see what all caught, no more")
    newcomer: Few | None = Field(default=None, ge=1, description="the last agent joins after so many months")
    utterances: Few = Field(default=MESSAGES - 1, ge=1, description="of a talk at most, besides the mayor's report")
    max_tokens: Tokens = Field(default=384, ge=1, description="longest reply, in tokens")

    def speakers(self) -> list[str]:
        """Who fishes, the newcomer last."""
        return [*NAMES[: self.agents]]

    def others(self) -> list[str]:
        """Who sums up each talk."""
        return ["summarizer"]

    def role_of(self, agent: str) -> str:
        """What an agent is."""
        return agent if agent in self.others() else "fisher"

    @property
    def capped(self) -> Per:
        """All together: a month's wishes are judged as one."""
        return self.cap_per or "all"

    def check_game(self, question: Mapping[str, Any]) -> None:  # Any: fields of a `Question`
        """It must be one that can be played, of as many agents, with the levers that were set."""
        game = self.seated(question["game"])
        same = {name: getattr(game, name) for name in ("months", "start", "collapse", "allocation", "language")}
        self.check_levers({**same, "newcomer": game.newcomer_after})

    def seated(self, given: Mapping[str, Any]) -> Game:  # Any: JSON
        """A game with the agents of the run in the places of its own, in their order.

        Raises:
            UsageError: it is none, or has more agents or fewer.
        """
        game, speakers = Game.model_validate(given), self.speakers()
        if (found := len(game.agents)) != len(speakers):
            raise UsageError(f"the game has {found} agents, but there are {len(speakers)}; give --agents {found}")
        return game.model_copy(update={"agents": speakers})

    def dealt(self, documents: Documents) -> Documents:
        """None are shown: the rules say what each agent knows."""
        return []

    def game(self, seed: str) -> Game:
        """The game of these settings.

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
