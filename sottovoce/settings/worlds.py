"""The settings of worlds, whose agents act by rules: CodeGen, GovSim's fishery and WhoDunit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import LONGEST_PROGRAM, Few, Rounds, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names
from sottovoce.environments import Split
from sottovoce.environments.govsim import fishery
from sottovoce.environments.govsim.talk import MESSAGES
from sottovoce.environments.problems import Problem
from sottovoce.environments.whodunit import games
from sottovoce.environments.whodunit.actions import Role
from sottovoce.environments.whodunit.wording import WORDINGS, Worded, Wording
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


FISHERS = (*fishery.AGENTS, "Anna", "Paul", "Rose", "Mark", "Lucy")


class GovSim(Settings):
    """Agents fish in one lake, and talk each month (GovSim).

    They try to keep the fish alive (arXiv 2404.16698).
    """

    default_temperature: ClassVar[float | None] = 0.0
    brief: ClassVar[bool] = True
    shows_documents: ClassVar[bool] = False
    measured_at: ClassVar[str] = "tons"
    watched_from: ClassVar[int] = 1
    """The wishes of the first month follow no talk that could be repeated."""
    together: ClassVar[str] = "wish"
    acts: ClassVar[tuple[str, ...]] = ("talk", "summarise", "limit", "reflect", "wish")
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({"harvest": "the lake loses the fish, for good"})

    agents: int = Field(default=5, ge=2, le=len(FISHERS), description="Number of agents that fish.")
    months: Few = Field(default=12, ge=1, description="Maximum number of months.")
    start: Few = Field(
        default=100, ge=1, description="Tons of fish in the first month, which is also the most that the lake can hold."
    )
    collapse: Few = Field(default=5, ge=1, description="All fish die out if fewer tons are left after a harvest.")
    allocation: fishery.Allocation = Field(
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
        return [*FISHERS[: self.agents]]

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

    def seated(self, stored: Mapping[str, JSONValue]) -> fishery.Game:
        """Return a stored game with its agents replaced by those of the run, in order.

        Raises:
            UsageError: it is not a game, or has another number of agents.
        """
        game, speakers = fishery.Game.model_validate(stored), self.speakers()
        if (found := len(game.agents)) != len(speakers):
            raise UsageError(f"the game has {found} agents, but there are {len(speakers)}; use --agents {found}")
        return game.model_copy(update={"agents": speakers})

    def game(self, seed: str) -> fishery.Game:
        """Return the game of these settings; a UsageError if it cannot be played."""
        return fishery.Game(
            start=self.start,
            seed=seed,
            agents=self.speakers(),
            months=self.months,
            collapse=self.collapse,
            allocation=self.allocation,
            language=self.language,
            newcomer_after=self.newcomer,
        )


PEERS = ("Alex", "Beth", "Charlie", "David", "Elizabeth", "Fred", "Grace", "Henry", "Iris", "James")
PUBLISHED = {
    "asym": {"agents": 2, "suspects": 10, "attributes": 12, "turns": 31},
    "sym": {"agents": 6, "suspects": 20, "attributes": 20, "turns": 20},
}


class WhoDunit(Settings):
    """Agents with different facts find the culprit (WhoDunit).

    The culprit is the only character that fits all facts (arXiv 2502.05986).
    """

    default_temperature: ClassVar[float | None] = 0.0
    brief: ClassVar[bool] = True
    shows_documents: ClassVar[bool] = False
    measured_at: ClassVar[str] = "action"
    acts: ClassVar[tuple[str, ...]] = ("request", "reply", "act")
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({"award": "it ends the game"})

    variant: Literal["asym", "sym"] = Field(
        default="asym",
        description="asym (the Accuser knows the winner's description, Intel all characters) or sym (all agents know "
        "all characters, and each some facts about the winner).",
    )
    agents: int | None = Field(
        default=None, ge=2, le=len(PEERS), description="Number of agents in sym (6 if not set); asym has two."
    )
    suspects: Few | None = Field(
        default=None, ge=2, description="Number of characters. If not set: 10 (asym) or 20 (sym)."
    )
    attributes: Few | None = Field(
        default=None,
        ge=1,
        description="Number of attributes of a character, from the beginning of the list. If not set: 12 (asym) or 20 "
        "(sym), or all of `attribute_list`.",
    )
    attribute_list: Annotated[str | None, Names("attribute list")] = Field(
        default=None, description='File of attributes that replaces the built-in list: {"car": ["red", "blue"], ...}.'
    )
    facts: Few = Field(default=3, ge=1, description="Number of facts that each agent knows in sym.")
    turns: Few | None = Field(
        default=None,
        ge=1,
        description="Maximum number of turns of all agents together. If not set: 31 (asym) or 20 (sym).",
    )
    vocabulary: Worded = Field(
        default="positive", description="positive (award a winning character) or negative (accuse a suspect)."
    )
    golden: bool = Field(
        default=False,
        description="Let a rule play Intel (asym): its replies are true and as informative as possible.",
    )
    values: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Let agents hear, after a published line, the part of the reply with its values: auto (if the "
        "protocol carries more than text), on or off.",
    )
    max_tokens: Tokens = Field(default=512, ge=1, description="Maximum length of a reply, in tokens.")

    def speakers(self) -> list[str]:
        """Return Accuser and Intel, or the peers, in the order of their turns."""
        if self.variant == "asym":
            return ["Beth", "Alex"]
        return [*PEERS[: self.agents or PUBLISHED["sym"]["agents"]]]

    def role_of(self, agent: str) -> Role:
        """Return the role of an agent."""
        return "peer" if self.variant == "sym" else "accuser" if agent == "Beth" else "intel"

    @property
    def capped(self) -> Per:
        """Each role in asym, all peers together in sym, as in the paper's code."""
        return self.cap_per or ("role" if self.variant == "asym" else "all")

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents and the variant."""
        return (f"{len(self.speakers())} agents of {self.variant}",)

    @property
    def words(self) -> Wording:
        """The words for characters, winner and award."""
        return WORDINGS[self.vocabulary]

    @property
    def most_turns(self) -> int:
        """The turn limit."""
        return self.turns or PUBLISHED[self.variant]["turns"]

    def game(self, seed: str, split: Split | None = None) -> games.Game:
        """Return a game of this variant, drawn from a seed, with characters of `split` if it is set.

        Raises:
            UsageError: no game fits these settings.
        """
        usual = PUBLISHED[self.variant]
        if self.attribute_list is None:
            known = games.attributes(self.attributes or usual["attributes"])
        else:
            own = games.read_attributes(self.attribute_list)
            known = games.attributes(self.attributes or len(own), own)
        agents = self.speakers() if self.variant == "sym" else []
        return games.drawn(
            f"{self.variant}/{seed}", known, self.suspects or usual["suspects"], agents, self.facts, split
        )

    def seated(self, stored: JSON) -> games.Game:
        """Return a stored game, with its facts assigned to the agents of the run, in order.

        Raises:
            UsageError: it is not a game, or belongs to another variant.
        """
        game, speakers = games.Game.model_validate(stored), self.speakers()
        if self.variant == "asym":
            return game
        if game.agents is None:
            raise UsageError("the game has no facts for agents, which sym needs; play it with --variant asym")
        if len(game.agents) != len(speakers):
            found, n = len(game.agents), len(speakers)
            raise UsageError(f"the game has facts for {found} agents, but there are {n}; use --agents {found}")
        return game.model_copy(update={"agents": dict(zip(speakers, game.agents.values(), strict=True))})

    def check_game(self, question: Mapping[str, JSONValue]) -> None:
        """Refuse a game of another variant, one that differs from the settings, or a target other than its winner."""
        game, target = self.seated(question["game"]), question.get("target")
        self.check_levers({"suspects": game.suspect_count, "attributes": len(game.names)})
        winner = game.winner
        if target not in (None, str(winner)):
            raise UsageError(f"the target is {target!r}, but the game's winner is {winner}")

    @model_validator(mode="after")
    def _fits(self) -> WhoDunit:
        if self.variant == "sym" and self.golden:
            raise UsageError("golden plays Intel, and sym has no Intel; use it with --variant asym")
        if self.variant == "asym" and self.agents not in (None, 2):
            raise UsageError(f"agents is {self.agents}, but asym has two, Accuser and Intel; use --variant sym")
        return self
