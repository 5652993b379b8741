"""GovSim's fishery (Piatti et al., arXiv 2404.16698): a world in which agents live from one lake, month by month.

Agents state a month's wishes in parallel and in private; then the fish are shared out. Then a round begins. All talk
about that harvest, and each speaker names the next one. The talk is summarized, each agent takes notes, and the wishes
for the next month follow, if there is one. So agents also talk in the month of a collapse. A watch judges all wishes of
a month together. A harvest cannot be undone: a reset returns to the beginning of the round, the talk after the harvest.

An agent's memory has the latest events: the report, the summary of the talk with the agreed limit, and its own
notes. The authors retrieve memories by recency, importance and similarity; this memory has only those that they
always include. Others hear only the utterance in a reply to the talk; nobody hears notes and wishes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Unpack

from pydantic import Field

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.core.any_types import JSONValue
from sottovoce.core.bounds import Few, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.environments import GAMES, Split
from sottovoce.environments.govsim import fishery
from sottovoce.environments.govsim.fishery import (
    Allocation,
    Game,
    World,
    first_state,
    is_harvested,
    is_over,
    lake_after,
    measures,
    own_catch,
    read_game,
    report,
    starts,
)
from sottovoce.environments.govsim.talk import (
    MESSAGES,
    NOTHING,
    next_speaker,
    read_limit,
    read_summary,
    read_tons,
    read_utterance,
    tons_pattern,
)
from sottovoce.graphs.scheme import Games, Graph, GraphInputs, Scheme
from sottovoce.nodes.decide import with_unreadable
from sottovoce.nodes.option_groups import Per
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.say import ANSWER_PREFILL, noted, say
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, current_messages, said

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

TALK, SUMMARISE, LIMIT, REFLECT, WISH, HARVEST = "talk", "summarise", "limit", "reflect", "wish", "harvest"
"""The acts; the summary and the harvest are also names of nodes."""
SUMMARIZER, LAKE = "summarizer", "lake"
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
        return [*FISHERS[: self.agents]]

    def others(self) -> list[str]:
        """Return the summarizer of each talk."""
        return [SUMMARIZER]

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
        """Return a stored game with its agents replaced by the run's agents, in order.

        Raises:
            UsageError: it is not a game, or has another number of agents.
        """
        game, speakers = Game.model_validate(stored), self.speakers()
        if (found := len(game.agents)) != len(speakers):
            raise UsageError(f"the game has {found} agents, but there are {len(speakers)}; use `agents={found}`")
        return game.model_copy(update={"agents": speakers})

    def game(self, seed: str) -> Game:
        """Return the game of these settings. Raise a UsageError if it cannot be played."""
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


class Fishery(Discussion):
    """The state of a game."""

    world: Annotated[World, RESTORED]
    """The month, the lake, and all harvests."""


# Acts


def begin(run: RunContext[GovSim], state: Discussion) -> Update:
    """Start the question's game, or else the settings' game, seeded by the run's seed and the question's id.

    Raises:
        UsageError: it is not a game, or has another number of agents.
    """
    given, settings = state.get("game"), run.settings
    game = settings.game(f"{settings.seed}/{question_id(state)}") if given is None else settings.seated(given)
    return {"game": game.model_dump(mode="json"), "world": first_state(game)}


async def talk(run: RunContext[GovSim], state: Fishery, agent: Agent) -> Update:
    """Return one utterance, which names the next speaker or ends the talk."""
    there = present(state)
    others = "|".join(each for each in there if each != agent.name)
    form = Form(pattern=rf"(?:yes|no)\nNext: (?:{others})", after="Done:", unknown=False)
    ask = Ask(TALK, talk_turns(state, agent), form)
    *before, message = await say(run, state, agent, ask)
    utterance = read_utterance(message, there)
    named = f"names {utterance.following}" if utterance.following else "names nobody"
    note = "ends the talk" if utterance.done else named
    return {"board": [*before, noted(message, note)], "turn": state["turn"] + 1}


async def summarise(run: RunContext[GovSim], state: Fishery, agent: Agent) -> Update:
    """Return a one-sentence summary of the talk, and the agreed limit, as text. The talk is heard by the protocol."""
    builder, most = agent.prompt_builder(state), game_of(state).start
    board = await say(run, state, agent, Ask(SUMMARISE, _summary_turns(run, builder, state, SUMMARISE), protocol=WORDS))
    ask = Ask(LIMIT, _summary_turns(run, builder, state, LIMIT), protocol=WORDS)
    ask = _answering(ask, builder, f"N/A|{tons_pattern(most)}")
    requested = words(builder.prompts.render("govsim/limit", steps=builder.steps))

    def validate(message: Message) -> str:
        return "" if read_limit(message) else f"it states neither a number of tons nor {NOTHING}"

    board += await say(run, state, agent, ask, validate=validate, requested=requested)
    return {"board": board, "turn": state["turn"] + 1}


async def reflect(run: RunContext[GovSim], state: Fishery, agent: Agent) -> Update:
    """Ask for a plan and for things to remember, in free text that nobody else reads."""
    builder = agent.prompt_builder(state)
    turns = _with_rules(state, builder, _talk(state, builder), builder.prompts.render("govsim/reflect"))
    return {"board": await say(run, state, agent, Ask(REFLECT, turns, protocol=WORDS))}


async def wish(run: RunContext[GovSim], state: Fishery, agent: Agent) -> Update:
    """Ask an agent in private for the tons that it wants. Ask again if the reply does not state them."""
    builder, month, pool = agent.prompt_builder(state), state["world"]["month"], state["world"]["pool"]
    lake = builder.prompts.render("govsim/lake", month=month, pool=pool)
    form = words(builder.prompts.render("govsim/wish", pool=pool, steps=builder.steps))
    memory = _memory(state, builder, state["round"])
    turns = _with_rules(state, builder, memory, lake, builder.question_of(form))
    ask = _answering(Ask(WISH, turns, protocol=WORDS), builder, tons_pattern(pool))

    def validate(message: Message) -> str:
        return "" if read_tons(message) is not None else "it states no number of tons"

    *before, message = await say(run, state, agent, ask, validate=validate, requested=form)
    tons = read_tons(message)
    return {"board": [*before, message if tons is None else noted(message, f"wants {tons} tons")]}


def next_month(run: RunContext[GovSim], state: Fishery) -> Update:
    """Let the fish double, unless the game is over."""
    game, world = game_of(state), state["world"]
    if not is_harvested(world):
        raise UsageError(f"month {world['month']} was not harvested; resume the run from an earlier step")
    after = world if is_over(game, world) else fishery.next_month(game, world)
    return {"world": after, "turn": state["turn"] + 1}


def harvest(run: RunContext[GovSim], state: Fishery) -> Update:
    """Share out the fish according to the agents' wishes. This cannot be undone."""
    game, wanted = game_of(state), {each.agent: read_tons(each) for each in _said(state, WISH)}
    if is_harvested(state["world"]) or set(wanted) != set(present(state)):
        raise UsageError(f"in this month there are wishes of {sorted(wanted)}; resume the run from an earlier step")
    world = fishery.harvest(game, state["world"], wanted)
    done, turn = world["harvests"][-1], state["turn"] + 1
    message = run.message(state, LAKE, HARVEST, report(done), attempt=0, turn=turn, notes=lake_after(game, done))
    return {"board": [message], "world": world, "turn": turn, "marks": []}


def _said(state: Fishery, act: str) -> list[Message]:
    """Return what was said in an act of this month."""
    return [each for each in current_messages(state) if each.act == act and each.round == state["round"]]


def game_of(state: Discussion) -> Game:
    """Return the game in the state. Raise a UsageError if a client wrote a state without one."""
    if "game" not in state:
        raise UsageError("the state has no 'game', which 'opening' wrote; resume from an earlier step")
    return Game.model_validate(state["game"])


def present(state: Fishery) -> list[str]:
    """Return the agents that are present in the current month."""
    return game_of(state).present(state["world"]["month"])


# The forms of replies


def _answering(ask: Ask, builder: PromptBuilder, pattern: str) -> Ask:
    """Constrain the answer's line to a pattern, after free reasoning; without steps the reply is only the answer."""
    if builder.steps:
        return replace(ask, response_format=Form(pattern=pattern, after=ANSWER_PREFILL, unknown=False))
    form = Form(pattern=pattern, spaced=True, unknown=False)
    return replace(ask, response_format=form, prefill=ANSWER_PREFILL, stop=("\n",))


# Prompts


def talk_turns(state: Fishery, agent: Agent) -> tuple[Turn, ...]:
    """Return the memory of the previous talk, the harvest, and the talk about it so far."""
    builder, others = agent.prompt_builder(state), [each for each in present(state) if each != agent.name]
    asked = builder.prompts.render("govsim/talk", others=others)
    return _with_rules(state, builder, _memory(state, builder, state["round"] - 1), _talk(state, builder), asked)


def _with_rules(state: Fishery, builder: PromptBuilder, *parts: Sequence[Part]) -> tuple[Turn, ...]:
    game = game_of(state)
    others = [each for each in present(state) if each != builder.agent]
    system = builder.prompts.render("govsim/fisher", me=builder.agent, others=others, start=game.start)
    return (*builder.system_turn(*system), Turn("user", blocks(builder.known([]), *parts)))


def _memory(state: Fishery, builder: PromptBuilder, round: int) -> tuple[Part, ...]:
    """Return an agent's memory of a round and the harvest before it, or an empty text if it was absent."""
    note = said(state, builder.agent, round, (REFLECT,))
    if note is None:
        return ()
    summary, limit = (said(state, SUMMARIZER, round, (act,)) for act in (SUMMARISE, LIMIT))
    done = _harvest_before(state, round)
    own = f" {own_catch(done, builder.agent)}" if builder.agent in done["caught"] else ""
    return builder.prompts.render(
        "govsim/memory",
        harvest=f"{report(done)}{own}",
        summary_text=read_summary(summary.full_text) if summary else "",
        limit=read_tons(limit) if limit else None,
        notes=note.full_text.strip(),
    )


def _talk(state: Fishery, builder: PromptBuilder) -> tuple[Part, ...]:
    """Return the harvest, and the utterances about it: the part of each reply that is meant for others."""
    game, done = game_of(state), _harvest_before(state, state["round"])
    own = own_catch(done, builder.agent) if builder.agent in done["caught"] else ""
    spoken = [[each.agent, _utterance(state, each, builder.agent)] for each in _said(state, TALK)]
    slots = {"report": report(done), "own": own, "trajectory": spoken, "talks": game.language}
    return builder.prompts.render("govsim/talk_so_far", **slots)


def _harvest_before(state: Fishery, round: int) -> fishery.Month:
    harvests = state["world"]["harvests"]
    if not 0 < round <= len(harvests):
        raise UsageError(f"round {round} follows harvest {round}, but there are {len(harvests)}: edit both or neither")
    return harvests[round - 1]


def _utterance(state: Fishery, message: Message, hearer: str) -> MessageRef | str:
    span = read_utterance(message, present(state)).span
    start, end = (at - len(message.begun) for at in span)
    return MessageRef(message, ((start, end),), own=message.agent == hearer) if start < end else ""


def _summary_turns(run: RunContext[GovSim], builder: PromptBuilder, state: Fishery, act: str) -> tuple[Turn, ...]:
    asked = blocks(_talk(state, builder), builder.prompts.render(f"govsim/{act}", steps=builder.steps))
    return (*builder.system_turn(), Turn("user", asked))


# Decision


def by_survival(run: RunContext[GovSim], state: Fishery) -> Decision:
    """Return the number of months that the fish lasted. The score is 1 if they lasted for all."""
    game, world = game_of(state), state["world"]
    figures, months, left = measures(game, world), len(world["harvests"]), counted(world["harvests"][-1]["left"], "ton")
    lasted = f"the fish lasted all {counted(game.months, 'month')}"
    died = f"the fish died out in month {months} of {game.months}"
    wanted = [read_tons(each) for each in current_messages(state) if each.act == WISH]
    decision: Decision = {
        "answer": counted(months, "month"),
        "rule": "survival",
        "why": f"{lasted if figures['survived'] else died}, with {left} left",
        "votes": [],
        "score": figures["survived"],
        "measures": figures | {"resets": len(state["epochs"])},
    }
    return with_unreadable(decision, wanted.count(None), len(wanted), "wishes could not be read, and caught nothing")


# Graph


REFLECTS, WISHES = "{}_reflects", "{}_wishes"
"""Names of nodes; the nodes of the talk have their agents' names."""
OVER = {SUMMARISE: "the talk is over", "decide": "the game is over"}


def who_begins(state: Any) -> list[str]:  # Any: LangGraph takes a type of state here for another schema
    """Begin the first month with wishes, and every other round with the talk, or with notes in games without talk."""
    if state["round"] == 0:
        return _all(state, WISHES)
    return [who_follows(state)] if game_of(state).language else _all(state, REFLECTS)


def who_follows(state: Fishery) -> str:
    """Return the agent that the last speaker named, or the summary when the talk is over."""
    spoken, there = _said(state, TALK), present(state)
    last = read_utterance(spoken[-1], there) if spoken else None
    most = int(state["settings"]["utterances"]) + 1
    return next_speaker(there, [each.agent for each in spoken], last, most) or SUMMARISE


def all_reflect(state: Fishery) -> list[str]:
    """Return the note-taking nodes of all agents present in this month."""
    return _all(state, REFLECTS)


def another_month(state: Fishery) -> list[str]:
    """Return the wishing nodes of all agents present, or the decision when the game is over."""
    return ["decide"] if is_over(game_of(state), state["world"]) else _all(state, WISHES)


def create_govsim(settings: GovSim | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a game. Names in `models`: the agents (John, Kate, ...), "summarizer"."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = GovSim.parse(settings)
    agents = settings.speakers()
    thinking, wishing = [REFLECTS.format(each) for each in agents], [WISHES.format(each) for each in agents]
    frame = Frame(SCHEME, settings, **inputs, rule=by_survival, begin=begin, state=Fishery)
    frame.graph.add_conditional_edges("next_round", who_begins, [*wishing, *agents, *thinking])
    for agent in agents:
        frame.act(agent, talk, role="speaker", to=who_follows, ends=[*agents, SUMMARISE], watched=False, labels=OVER)
    frame.act(SUMMARISE, summarise, agent=SUMMARIZER, role=SUMMARIZER, to=all_reflect, ends=thinking, watched=False)
    for agent, node in zip(agents, thinking, strict=True):
        frame.act(node, reflect, agent=agent, role="thinker", to="next_month", watched=False)
    frame.join("next_month", frame.step(next_month), to=another_month, ends=["decide", *wishing], labels=OVER)
    frame.join("harvest", frame.step(harvest), to="next_round", together=partial(_said, act=WISH))
    for agent, node in zip(agents, wishing, strict=True):
        frame.act(node, wish, agent=agent, role="fisher", to="harvest", watched=False, effect=lambda update: HARVEST)
    return frame.graph


def _all(state: Fishery, node: str) -> list[str]:
    """Return a node for each agent present in this month."""
    return [node.format(agent) for agent in present(state)]


def manner(settings: GovSim) -> str:
    """Return a phrase that describes the game."""
    months = counted(settings.months, "month")
    said = counted(settings.utterances, "utterance")
    talk = f"at most {said} a talk" if settings.language else "without talk"
    joins = f", the last from month {settings.newcomer + 1}" if settings.newcomer else ""
    return f"{settings.agents} agents{joins}, at most {months}, {talk}"


def draw_games(n: int, settings: GovSim, seed: int = 0, split: Split | None = None) -> list[Question]:
    """Return the first `n` games of a seed with these settings. A split has its own start values and fewer games.

    Raises:
        UsageError: there are no such games, or the settings name a start although the split has its own.
    """
    if split is None:
        return [_question(settings.game(f"{seed}/{i}"), f"govsim/{seed}/{i}") for i in range(n)]
    if "start" in settings.model_fields_set:
        raise UsageError(
            f"start is {settings.start}, but the sample govsim/{split} sets its own; give only one of them"
        )
    values = enumerate(starts(split, seed)[:n])
    drawn = [settings.game(f"{split}/{seed}/{i}").model_copy(update={"start": start}) for i, start in values]
    return [_question(game, f"govsim/{game.seed}") for game in drawn]


def _question(game: Game, id: str) -> Question:
    """Return a game as a question, which agents are asked each month; its result is how long the fish last."""
    months = counted(game.months, "month")
    return Question(
        id=id,
        question="How many tons of fish do you catch this month?",
        kind="text",
        target=months,
        solution=f"The fish last for {months}.",
        game=game.model_dump(mode="json"),
    )


SCHEME = Scheme(
    "govsim",
    GovSim,
    create_govsim,
    answers=(),
    headings={
        "wish": "Month {round}",
        "harvest": "Month {round}",
        "talk": "Talk",
        "summarise": "Summary of the talk",
        "limit": "Summary of the talk",
        "reflect": "Notes",
    },
    sample="govsim",
    shares=frozenset({"survived", "efficiency", "equality", "over_usage"}),
    games=Games(
        samples=GAMES["govsim"],
        draw=draw_games,
        read=lambda path, settings: _question(read_game(path), path.stem),
        most={"govsim/train": 26, "govsim/validation": 14, "govsim/test": 20},
    ),
    unrolls="in a world, speakers and messages depend on earlier actions",
    manner=manner,
    shows="agents fish in one lake and talk, and a model this small leaves no fish",
    first={
        "agents": 3,
        "months": 3,
        "utterances": 2,
        "temperature": 0.7,
        "max_tokens": 40,
        "chain_of_thought": "off",
    },
)
make_graph = SCHEME.make_graph
