"""WhoDunit (Barbi et al., arXiv 2502.05986): a world in which agents find the one character who fits.

Asymmetric: the Accuser asks and Intel replies, in turn, until the Accuser awards somebody. Symmetric: all act in
turn, and the first award ends the game. A turn is a round. A turn that cannot be parsed after all retries, or the turn
limit, ends the game without an answer. A reset restarts the whole game, since nothing but its end is irreversible.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import Few, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.core.trust import Names
from sottovoce.environments import Split
from sottovoce.environments.whodunit import games
from sottovoce.environments.whodunit.actions import WORDINGS, Role, Worded, Wording
from sottovoce.environments.whodunit.games import Game, read_game
from sottovoce.environments.whodunit.knowledge import class_noted
from sottovoce.graphs.scheme import Games, Graph, GraphInputs, Scheme, State
from sottovoce.nodes.option_groups import Per
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings

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


def whose_turn(state: State) -> str:
    """Return the agent of this turn: all in their order, again and again."""
    order: list[str] = WhoDunit.model_construct(**state["settings"]).speakers()
    return order[int(state["round"]) % len(order)]


OVER = {"next_round": "the game goes on", "decide": "the game is over"}


def next_turn(state: Any) -> Literal["next_round", "decide"]:
    """Continue until the game is over."""
    from sottovoce.nodes.whodunit import game_over

    return "decide" if game_over(state) else "next_round"


def create_whodunit(settings: WhoDunit | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a game. Names in `models`: "Beth" (Accuser) and "Alex" (Intel), or the peers."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import whodunit as acts

    settings = WhoDunit.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_award, begin=acts.begin, state=acts.Mystery, back_to=0)
    frame.graph.add_conditional_edges("next_round", whose_turn, settings.speakers())
    for agent in settings.speakers():
        frame.act(
            agent,
            acts.take_turn,
            role=settings.role_of(agent),
            to=next_turn,
            effect=acts.effect,
            silent=acts.stay_silent,
            labels=OVER,
        )
    return frame.graph


def manner(settings: WhoDunit) -> str:
    """Return a phrase that describes the game."""
    named = [f"{settings.role_of(each).title()} {each}" for each in settings.speakers()]
    who = " and ".join(named) if settings.variant == "asym" else f"{len(named)} peers"
    most, by_rule = settings.most_turns, ", by rule," if settings.golden else ""
    return f"{who}{by_rule} in turn, at most {counted(most, 'turn')}"


def draw_games(n: int, settings: WhoDunit, seed: int = 0, split: Split | None = None) -> list[Question]:
    """Return the first `n` games of a seed with these settings; the games of a split share no character with others.

    Raises:
        UsageError: there are no such games.
    """
    name = str(seed) if split is None else f"{split}/{seed}"
    return [_question(settings.game(f"{name}/{i}", split), f"whodunit/{name}/{i}", settings) for i in range(n)]


def _question(game: Game, id: str, settings: WhoDunit) -> Question:
    """Return a game as a question; Intel, which cannot know who is sought, gets its own wording."""
    words = settings.words
    question = Question(
        id=id,
        question=f"Which {words.person} is the {words.winner}?",
        kind="number",
        target=str(game.winner),
        solution=f"All that is known fits {words.person} {game.winner} alone. The answer is {game.winner}.",
        game=game.model_dump(mode="json"),
    )
    if settings.variant == "sym":
        return question
    accuser, intel = settings.speakers()
    return {**question, "wordings": {intel: f"What do you tell {accuser} now?"}}


SCHEME = Scheme(
    "whodunit",
    WhoDunit,
    create_whodunit,
    answers=(),
    headings=dict.fromkeys(("request", "reply", "act"), "Turn {round}"),
    sample="whodunit",
    games=Games(
        samples={
            "whodunit": "games of the size in the settings; for the scheme whodunit",
            "whodunit/train": "such games, for fitting monitors",
            "whodunit/validation": "games with other characters, for choosing monitors",
            "whodunit/test": "games with the remaining characters, held out",
        },
        draw=draw_games,
        read=lambda path, settings: _question(read_game(path), path.stem, settings),
    ),
    unrolls="in a world, speakers and messages depend on earlier actions",
    manner=manner,
    truth=lambda message: class_noted(message.notes),
    first_options="--suspects 3 --attributes 3 --turns 8",
)
make_graph = SCHEME.make_graph
