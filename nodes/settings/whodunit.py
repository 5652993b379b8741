"""The settings of WhoDunit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.bounds import Few, Tokens
from sottovoce.environments.game_file import Split
from sottovoce.environments.whodunit.actions import Role
from sottovoce.environments.whodunit.attributes import ALL, attributes, read_attributes
from sottovoce.environments.whodunit.games import Game, drawn
from sottovoce.environments.whodunit.wording import WORDINGS, Worded, Wording
from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Documents, Settings
from sottovoce.nodes.settings.watched import Per
from sottovoce.trust import Names

PEERS = ("Alex", "Beth", "Charlie", "David", "Elizabeth", "Fred", "Grace", "Henry", "Iris", "James")
PUBLISHED = {
    "asym": {"agents": 2, "suspects": 10, "attributes": 12, "turns": 31},
    "sym": {"agents": 6, "suspects": 20, "attributes": 20, "turns": 20},
}


class WhoDunit(Settings):
    """Agents who know different things find the one character whom all of it fits (WhoDunit, arXiv 2502.05986)."""

    default_temperature: ClassVar[float | None] = 0.0
    sample: ClassVar[str] = "whodunit"
    world: ClassVar[str] = "sottovoce.evaluation.whodunit:WORLD"
    positions: ClassVar[str] = "action"
    acts: ClassVar[tuple[str, ...]] = ("request", "reply", "act")
    deeds: ClassVar[Mapping[str, str]] = MappingProxyType({"award": "it ends the game"})
    unrolls: ClassVar[str] = "in a world, who acts and what is heard depends on what was done before"

    variant: Literal["asym", "sym"] = Field(
        default="asym",
        description="asym: an Accuser knows the winner, Intel everybody; sym: all know everybody, each some facts",
    )
    agents: int | None = Field(
        default=None, ge=2, le=len(PEERS), description="how many agents of sym, else 6; asym has two"
    )
    suspects: Few | None = Field(default=None, ge=2, description="how many characters; else 10 (asym) or 20 (sym)")
    attributes: Few | None = Field(
        default=None, ge=1, description="what they are told apart by, the first so many of the list; else 12 or 20"
    )
    attribute_list: Annotated[str | None, Names("attribute list")] = Field(
        default=None, description='a file of attributes in the place of ours: {"car": ["red", "blue"], ...}'
    )
    facts: Few = Field(default=3, ge=1, description="facts that each agent of sym knows")
    turns: Few | None = Field(default=None, ge=1, description="turns of all together, at most; else 31 or 20")
    vocabulary: Worded = Field(default="positive", description="award a winning character, or accuse a suspect")
    golden: bool = Field(default=False, description="Intel (asym) is played by rule: a true and most telling reply")
    values: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="hear, behind a published line, the part of the reply with its values: auto where the protocol "
        "carries more than words",
    )
    max_tokens: Tokens = Field(default=512, ge=1, description="longest reply, in tokens")

    def speakers(self) -> list[str]:
        """The Accuser and Intel, or the peers, in the order of their turns."""
        if self.variant == "asym":
            return ["Beth", "Alex"]
        return [*PEERS[: self.agents or PUBLISHED["sym"]["agents"]]]

    def role_of(self, agent: str) -> Role:
        """What an agent is."""
        return "peer" if self.variant == "sym" else "accuser" if agent == "Beth" else "intel"

    @property
    def capped(self) -> Per:
        """Accuser and Intel have a cap each, peers one together (the paper's code)."""
        return self.cap_per or ("role" if self.variant == "asym" else "all")

    def topology(self) -> tuple[str, ...]:
        """Who there is depends on the variant."""
        return (f"{len(self.speakers())} agents of {self.variant}",)

    def dealt(self, documents: Documents) -> Documents:
        """None are shown: the rules say what each agent knows."""
        return []

    @property
    def words(self) -> Wording:
        """What people are called."""
        return WORDINGS[self.vocabulary]

    @property
    def most_turns(self) -> int:
        """The turn limit."""
        return self.turns or PUBLISHED[self.variant]["turns"]

    def game(self, seed: str, split: Split | None = None) -> Game:
        """A game of this kind, drawn from a seed, with characters of a split if one is named.

        Raises:
            UsageError: there are no such games.
        """
        usual = PUBLISHED[self.variant]
        if self.attribute_list is None:
            known = attributes(self.attributes or usual["attributes"], ALL)
        else:
            own = read_attributes(self.attribute_list)
            known = attributes(self.attributes or len(own), own)
        agents = self.speakers() if self.variant == "sym" else []
        return drawn(f"{self.variant}/{seed}", known, self.suspects or usual["suspects"], agents, self.facts, split)

    def seated(self, given: dict[str, Any]) -> Game:  # Any: JSON as it comes
        """A game as it is stored, its facts those of the agents here, in their order.

        Raises:
            UsageError: it is none, or another variant's.
        """
        game, speakers = Game.model_validate(given), self.speakers()
        if self.variant == "asym":
            return game
        if game.agents is None:
            raise UsageError("the game has no facts of agents, and sym needs them; play it with --variant asym")
        if len(game.agents) != len(speakers):
            found, n = len(game.agents), len(speakers)
            raise UsageError(f"the game has facts of {found} agents, but there are {n}; give --agents {found}")
        return game.model_copy(update={"agents": dict(zip(speakers, game.agents.values(), strict=True))})

    def check_game(self, question: Mapping[str, Any]) -> None:  # Any: fields of a `Question`
        """It must be one of this variant, with the levers that were set, and the target its winner."""
        game, target = self.seated(question["game"]), question.get("target")
        self.check_levers({"suspects": game.suspect_count, "attributes": len(game.names)})
        winner = game.winner
        if target not in (None, str(winner)):
            raise UsageError(f"the target is {target!r}, but the game's winner is {winner}")

    @model_validator(mode="after")
    def _fits(self) -> WhoDunit:
        if self.variant == "sym" and self.golden:
            raise UsageError("golden is Intel's, and sym has no Intel; use it with --variant asym")
        if self.variant == "asym" and self.agents not in (None, 2):
            raise UsageError(f"agents is {self.agents}, but asym has two, Accuser and Intel; use it with --variant sym")
        return self
