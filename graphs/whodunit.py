"""WhoDunit (Barbi et al., arXiv 2502.05986): a world in which agents find the one character who fits.

Asymmetric: the Accuser asks and Intel replies, in turn, until the Accuser awards somebody. Symmetric: all act in turn,
and the first award ends the game. A turn is a round. The game ends without an answer at the turn limit, or after a turn
that cannot be parsed in any retry. A reset restarts the whole game, since only its end is irreversible.

An agent thinks in free text and ends with its action, a JSON object. The rules publish the action as one line, and the
others hear that line; the thoughts stay private, and later turns do not show them. If the protocol carries more than
text, agents hear the part of the reply with the published values after that line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import Few, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.core.trust import Names
from sottovoce.environments import GAMES, Split
from sottovoce.environments.whodunit import games
from sottovoce.environments.whodunit.actions import (
    WORDINGS,
    Action,
    Malformed,
    Role,
    Worded,
    Wording,
    described,
    fact,
    form,
    located,
    people,
    read,
)
from sottovoce.environments.whodunit.games import Game
from sottovoce.environments.whodunit.knowledge import NOTES, World, class_noted, described_knowledge, measures
from sottovoce.environments.whodunit.rules import (
    KEYS,
    RETRIES,
    cancelled,
    first_state,
    golden_reply,
    is_over,
    passed,
    step,
    values_in,
)
from sottovoce.graphs.scheme import Games, Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import decided
from sottovoce.nodes.option_groups import Per
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.say import say, unread
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, current_messages

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

ACTS: dict[Role, str] = {"accuser": "request", "intel": "reply", "peer": "act"}
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
        "(sym), or all of --attribute-list.",
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

    def game(self, seed: str, split: Split | None = None) -> Game:
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

    def seated(self, stored: JSON) -> Game:
        """Return a stored game, with its facts assigned to the agents of the run, in order.

        Raises:
            UsageError: it is not a game, or belongs to another variant.
        """
        game, speakers = Game.model_validate(stored), self.speakers()
        if self.variant == "asym":
            return game
        if game.agents is None:
            raise UsageError("the game has no facts for agents, which sym needs; play it with `variant='asym'`")
        if len(game.agents) != len(speakers):
            found, n = len(game.agents), len(speakers)
            raise UsageError(f"the game has facts for {found} agents, but there are {n}; use `agents={found}`")
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
            raise UsageError("golden plays Intel, but sym has no Intel; use golden with `variant='asym'`")
        if self.variant == "asym" and self.agents not in (None, 2):
            raise UsageError(f"agents is {self.agents}, but asym has two, Accuser and Intel; use `variant='sym'`")
        return self


class Mystery(Discussion):
    """The state of a game."""

    world: Annotated[World, RESTORED]
    """The questions, claims and shared facts, and their true consequences."""


# Acts


def begin(run: RunContext[WhoDunit], state: Discussion) -> Update:
    """Start the question's game; without one, a game drawn from the run's seed and the question's id.

    Raises:
        UsageError: it is not a game, or belongs to another variant.
    """
    given, settings = state.get("game"), run.settings
    game = settings.game(f"{settings.seed}/{question_id(state)}") if given is None else settings.seated(given)
    notes = list[str]()
    channels = [agent.local.channel for agent in run.agents.values() if agent.local is not None]
    # What stands before a prompt has no spans.
    whole = any(each.hands_over and getattr(each.options, "place", "") != "quoted" for each in channels)
    if whole and settings.values != "off":
        notes = [f"{settings.protocol} hands over more than the game publishes: private clues and thoughts too"]
    return {"game": game.model_dump(mode="json"), "world": first_state(game), "notes": notes}


async def take_turn(run: RunContext[WhoDunit], state: Mystery, agent: Agent) -> Update:
    """Ask for an action, and again with a hint if it cannot be read; without one the game is cancelled."""
    settings, game = run.settings, game_of(state)
    role, world, wording = settings.role_of(agent.name), state["world"], settings.words
    facts = len((game.agents or {}).get(agent.name, ()))

    def action(message: Message) -> Action | Malformed:
        return read(message, role, game, wording, facts)

    def validate(message: Message) -> str:
        parsed = action(message)
        return parsed.hint if isinstance(parsed, Malformed) else ""

    if settings.golden and role == "intel":
        messages = [run.message(state, agent.name, ACTS[role], golden_reply(game, world, wording))]
    else:
        request = _question_of(agent.prompt_builder(state), settings, game)
        ask = Ask(ACTS[role], turn_of(run, state, agent), form(role, game, wording, facts, request))
        messages = await say(run, state, agent, ask, validate=validate, retries=RETRIES, show_failed=False)
    done = action(messages[-1])
    if isinstance(done, Malformed):
        return {"board": messages, "world": cancelled(world, agent.name, unread(messages[-1], done.hint))}
    line, after = step(game, world, agent.name, done, wording)
    blunders = [NOTES[each] for each in after["done"][-1]["blunders"]]
    known = described_knowledge(game, after, settings.speakers()[0])
    notes = (*messages[-1].notes, f"published: {line or 'nothing'}", *blunders, known)
    said = replace(messages[-1], public=line, notes=notes)
    return {"board": [*messages[:-1], said], "world": after}


def effect(update: Update) -> str:
    """Return the name of a turn's action, or an empty text if it could not be read."""
    world: World = update["world"]
    return "" if world["cancelled"] else world["done"][-1]["action"]


def game_of(state: Discussion) -> Game:
    """Return the game in the state. Raise a UsageError if a client wrote a state without one."""
    if "game" not in state:
        raise UsageError("the state has no 'game', which 'opening' wrote; resume from an earlier step")
    return Game.model_validate(state["game"])


# Prompts


def turn_of(run: RunContext[WhoDunit], state: Mystery, agent: Agent) -> tuple[Turn, ...]:
    """Return the rules and the agent's knowledge, the published lines, and the request for an action."""
    settings, builder, game = run.settings, agent.prompt_builder(state), game_of(state)
    known = builder.prompts.render(f"whodunit/{settings.role_of(agent.name)}", **_rules(settings, game, agent.name))
    request = builder.question_of(_question_of(builder, settings, game))
    asked = blocks(builder.known([]), _facts(builder, settings, game), _channel(run, state, builder), request)
    return (*builder.system_turn(*known), Turn("user", asked))


def _rules(settings: WhoDunit, game: Game, agent: str) -> dict[str, object]:
    """Return the values for a role's prompt, without any that it must not know."""
    slots: dict[str, object] = {
        "me": agent,
        "others": [name for name in settings.speakers() if name != agent],
        "w": settings.words,
        "count": game.suspect_count,
        "properties": game.names,
        "turns": settings.most_turns,
    }
    if settings.role_of(agent) == "accuser":
        return {**slots, "description": described(game.person(game.winner))}
    return {**slots, "people": people(game.suspects, settings.words)}


def _facts(builder: PromptBuilder, settings: WhoDunit, game: Game) -> tuple[Part, ...]:
    own = (game.agents or {}).get(builder.agent, ()) if settings.variant == "sym" else ()
    facts = [fact(name, value, settings.words) for name, value in own]
    return builder.prompts.render("whodunit/facts", facts=facts, w=settings.words) if facts else ()


def _channel(run: RunContext[WhoDunit], state: Mystery, builder: PromptBuilder) -> tuple[Part, ...]:
    """Return the published lines; if set, others' lines are followed by their published values."""
    settings, shown = run.settings, list[object]()
    spoken = [message for message in current_messages(state) if message.public]
    wanted = settings.protocol != WORDS if settings.values == "auto" else settings.values == "on"
    for message in spoken:
        under = wanted and message.agent != builder.agent
        latest = message is spoken[-1]
        values = _values(settings, state, message, latest=latest) if under else ""
        shown.append([message.public, values])
    turn, most = state["world"]["turn"] + 1, settings.most_turns
    return builder.prompts.render("whodunit/channel", trajectory=shown, turn=turn, turns=most)


def _values(settings: WhoDunit, state: Mystery, message: Message, *, latest: bool) -> MessageRef | str:
    """Return the values of a published line, or "" if they were not published, or not without others."""
    done, game, wording = state["world"]["done"][message.round], game_of(state), settings.words
    if "mismatch" in done["blunders"]:  # "is unable to answer" publishes no value
        return ""
    facts = len((game.agents or {}).get(message.agent, ()))
    _, place = located(message, settings.role_of(message.agent), game, wording, facts)
    keys = {"action", *(wording.person if key == "person" else key for key in KEYS[done["action"]])}
    span = values_in(message.text, keys, place)
    return MessageRef(message, (span,), latest) if span else ""


def _question_of(builder: PromptBuilder, settings: WhoDunit, game: Game) -> str:
    """Return the request for an action, with a value of this game as an example."""
    role, name = settings.role_of(builder.agent), game.names[0]
    known = game.person(game.winner if role == "accuser" else 1)
    slots = {"w": settings.words, "example": [name, known[name]]}
    return words(builder.prompts.render(f"whodunit/{role}_form", **slots))


# Decision


def by_award(run: RunContext[WhoDunit], state: Mystery) -> Decision:
    """Decide by the awarded character; without an award there is no answer, and the game is lost."""
    game, world, one = game_of(state), state["world"], run.settings.words.person
    turn, took = world["turn"], len({(message.epoch, message.round) for message in state["board"]})
    figures = measures(game, world, took, len(state["epochs"]))
    all_turns = f" ({took} turns with those before a reset)" if took > turn else ""
    if world["awarded"] is None:
        why = f"the game was cancelled in turn {turn}: {world['cancelled']}" if world["cancelled"] else (
            f"nobody was awarded within {counted(turn, 'turn')}"
        )  # fmt: skip
        lost = decided("award", f"{why}; no answer{all_turns}", [], [], state, (None,))
        return {**lost, "score": 0.0, "measures": figures}
    by, number, right = world["done"][-1]["agent"], world["awarded"], world["awarded"] == game.winner
    vote: Vote = {"agent": by, "answer": str(number), "counts": True}
    verdict = "who fits" if right else f"but {one} {game.winner} fits"
    why = f"{by} chose {one} {number} in turn {turn}, {verdict}{all_turns}"
    made = decided("award", why, [], [vote], state, (str(number),))
    return {**made, "by": by, "score": float(right), "measures": figures}


# Graph


def whose_turn(state: State) -> str:
    """Return the agent of this turn: all in their order, again and again."""
    order: list[str] = WhoDunit.model_construct(**state["settings"]).speakers()
    return order[int(state["round"]) % len(order)]


OVER = {"next_round": "the game goes on", "decide": "the game is over"}


def next_turn(state: Mystery) -> Literal["next_round", "decide"]:
    """Continue until the game is over."""
    most = WhoDunit.model_construct(**state["settings"]).most_turns
    return "decide" if is_over(state["world"], most) else "next_round"


def create_whodunit(settings: WhoDunit | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a game. Names in `models`: "Beth" (Accuser) and "Alex" (Intel), or the peers."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = WhoDunit.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_award, begin=begin, state=Mystery, back_to=0)
    frame.graph.add_conditional_edges("next_round", whose_turn, settings.speakers())
    for agent in settings.speakers():
        frame.act(
            agent,
            take_turn,
            role=settings.role_of(agent),
            to=next_turn,
            effect=effect,
            silent=lambda run, state, agent: {"world": passed(state["world"], agent)},
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
    """Return the first `n` games of a seed with these settings. The games of a split share no character with others.

    Raises:
        UsageError: there are no such games.
    """
    name = str(seed) if split is None else f"{split}/{seed}"
    return [_question(settings.game(f"{name}/{i}", split), f"whodunit/{name}/{i}", settings) for i in range(n)]


def _question(game: Game, id: str, settings: WhoDunit) -> Question:
    """Return a game as a question; Intel, which cannot know who is sought, gets its own wording."""
    person, winner = settings.words.person, settings.words.winner
    question = Question(
        id=id,
        question=f"Which {person} is the {winner}?",
        kind="number",
        target=str(game.winner),
        solution=f"All that is known fits {person} {game.winner} alone. The answer is {game.winner}.",
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
    shares=frozenset({"success", "precision", "cancelled"}),
    games=Games(
        samples=GAMES["whodunit"],
        draw=draw_games,
        read=lambda path, settings: _question(games.read_game(path), path.stem, settings),
    ),
    unrolls="in a world, speakers and messages depend on earlier actions",
    manner=manner,
    truth=lambda message: class_noted(message.notes),
    shows="agents make facts public in turn, until one of them names the character that fits",
    first={
        "variant": "sym",
        "suspects": 3,
        "attributes": 3,
        "turns": 6,
        "temperature": 1,
        "max_tokens": 64,
        "chain_of_thought": "off",
    },
)
make_graph = SCHEME.make_graph
