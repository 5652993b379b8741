"""The acts of GovSim's fishery: talk, its summary, private notes, wishes; the harvest, and the end of a game.

An agent's memory has the latest events: the report, the summary of the talk with the agreed limit, and its own
notes. The authors retrieve memories by recency, importance and similarity; this memory has only those that they
always include. Others hear only the utterance in a reply to the talk; nobody hears notes and wishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.environments.govsim import fishery
from sottovoce.environments.govsim.fishery import (
    Game,
    Month,
    World,
    ended,
    first_state,
    is_over,
    measures,
    own_catch,
    report,
)
from sottovoce.environments.govsim.talk import next_speaker, read_limit, read_summary, read_tons, read_utterance
from sottovoce.graphs.govsim import GovSim
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.decide import with_unreadable
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import question_id
from sottovoce.nodes.say import ANSWER_PREFILL, noted, say
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, current_messages, said

TALK, SUMMARISE, LIMIT, REFLECT, WISH, HARVEST = "talk", "summarise", "limit", "reflect", "wish", "harvest"
SUMMARIZER, LAKE = "summarizer", "lake"
WIDTH = 30
"""Width of the bar that shows the lake, in characters."""


class Fishery(Discussion):
    """The state of a game."""

    world: Annotated[World, RESTORED]
    """The month, the lake, and all harvests."""


# Acts


def begin(run: RunContext[GovSim], state: Discussion) -> Update:
    """Start the question's game; without one, that of the settings, seeded by the run's seed and the question's id.

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
    utterance = read_utterance(message.full_text, there)
    named = f"names {utterance.following}" if utterance.following else "names nobody"
    note = "ends the talk" if utterance.done else named
    return {"board": [*before, noted(message, note)], "turn": state["turn"] + 1}


async def summarise(run: RunContext[GovSim], state: Fishery, agent: Agent) -> Update:
    """Return a one-sentence summary of the talk, and the agreed limit, both as text; the talk is heard by protocol."""
    builder, most = agent.prompt_builder(state), game_of(state).start
    board = await say(run, state, agent, Ask(SUMMARISE, _summary_turns(run, builder, state, SUMMARISE), protocol=WORDS))
    ask = Ask(LIMIT, _summary_turns(run, builder, state, LIMIT), protocol=WORDS)
    board += await say(run, state, agent, _answering(ask, builder, f"N/A|{tons_pattern(most)}"))
    return {"board": board, "turn": state["turn"] + 1}


async def reflect(run: RunContext[GovSim], state: Fishery, agent: Agent) -> Update:
    """Ask for a plan and for things to remember, in free text that nobody else reads."""
    builder = agent.prompt_builder(state)
    turns = _with_rules(state, builder, _talk(state, builder), builder.prompts.render("govsim/reflect"))
    return {"board": await say(run, state, agent, Ask(REFLECT, turns, protocol=WORDS))}


async def wish(run: RunContext[GovSim], state: Fishery, agent: Agent) -> Update:
    """Ask for the tons that an agent wants, in private; an unreadable reply counts as 0."""
    builder, month, pool = agent.prompt_builder(state), state["world"]["month"], state["world"]["pool"]
    lake = builder.prompts.render("govsim/lake", month=month, pool=pool)
    form = words(builder.prompts.render("govsim/wish", pool=pool, steps=builder.steps))
    memory = _memory(state, builder, state["round"])
    turns = _with_rules(state, builder, memory, lake, builder.question_of(form))
    ask = _answering(Ask(WISH, turns, protocol=WORDS), builder, tons_pattern(pool))
    *before, message = await say(run, state, agent, ask, validate=_unreadable, retries=0)
    tons = read_tons(message.full_text)
    return {"board": [*before, noted(message, f"wants {tons or 0} tons")]}


def next_month(run: RunContext[GovSim], state: Fishery) -> Update:
    """Let the fish double, unless the game is over."""
    game, world = game_of(state), state["world"]
    if not fishery.is_harvested(world):
        raise UsageError(f"month {world['month']} was not harvested; resume the run from an earlier step")
    after = world if is_over(game, world) else fishery.next_month(game, world)
    return {"world": after, "turn": state["turn"] + 1}


def harvest(run: RunContext[GovSim], state: Fishery) -> Update:
    """Share out the fish according to the agents' wishes. This cannot be undone."""
    game, wanted = game_of(state), {each.agent: read_tons(each.full_text) for each in wishes(state)}
    if fishery.is_harvested(state["world"]) or set(wanted) != set(present(state)):
        raise UsageError(f"in this month there are wishes of {sorted(wanted)}; resume the run from an earlier step")
    world = fishery.harvest(game, state["world"], wanted)
    done, turn = world["harvests"][-1], state["turn"] + 1
    message = run.message(state, LAKE, HARVEST, report(done), attempt=0, turn=turn, notes=_shown(game, done))
    return {"board": [message], "world": world, "turn": turn, "marks": []}


def wishes(state: Fishery) -> list[Message]:
    """Return the wishes of this month."""
    return [each for each in current_messages(state) if each.act == WISH and each.round == state["round"]]


def game_of(state: Discussion) -> Game:
    """Return the game in the state."""
    return Game.model_validate(state["game"])


def present(state: Fishery) -> list[str]:
    """Return the agents that are present in the current month."""
    return game_of(state).present(state["world"]["month"])


def speaker_of(state: Fishery) -> str | None:
    """Return the next speaker in the talk; None if it is over."""
    spoken, there = _spoken(state), present(state)
    last = read_utterance(spoken[-1].full_text, there) if spoken else None
    return next_speaker(there, [each.agent for each in spoken], last, int(state["settings"]["utterances"]) + 1)


def game_over(state: Fishery) -> bool:
    """Return True if no month follows."""
    return is_over(game_of(state), state["world"])


def _spoken(state: Fishery) -> list[Message]:
    return [each for each in current_messages(state) if each.act == TALK and each.round == state["round"]]


def _unreadable(message: Message) -> str:
    return "" if read_tons(message.full_text) is not None else "it holds no number of tons, and counts as 0"


def _shown(game: Game, done: Month) -> tuple[str, ...]:
    left, wanted, pool = done["left"], sum(done["wanted"].values()), done["pool"]
    full = round(WIDTH * left / game.start)
    bar = f"[{'#' * full}{'.' * (WIDTH - full)}] {counted(left, 'ton')} left of {pool}"
    gone = left < game.collapse
    what_next = "the fish die out" if gone else f"they double to {min(game.start, 2 * left)}"
    short = [f"all together wanted {wanted} tons"] if wanted > pool else []
    return (f"{bar}; {what_next}", *short)


# The forms of replies


def _answering(ask: Ask, builder: PromptBuilder, pattern: str) -> Ask:
    """Constrain the answer's line to a pattern, after free reasoning; without steps the reply is only the answer."""
    if builder.steps:
        return replace(ask, response_format=Form(pattern=pattern, after=ANSWER_PREFILL, unknown=False))
    form = Form(pattern=pattern, spaced=True, unknown=False)
    return replace(ask, response_format=form, prefill=ANSWER_PREFILL, stop=("\n",))


def tons_pattern(most: int) -> str:
    """Return the pattern of "N tons" for N from 0 to `most`."""
    return f"(?:{'|'.join(map(str, range(most + 1)))}) tons"


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
    """Return an agent's memory of a round and the harvest before it; empty if it was absent."""
    note = said(state, builder.agent, round, (REFLECT,))
    if note is None:
        return ()
    summary, limit = (said(state, SUMMARIZER, round, (act,)) for act in (SUMMARISE, LIMIT))
    done = state["world"]["harvests"][round - 1]
    own = f" {own_catch(done, builder.agent)}" if builder.agent in done["caught"] else ""
    return builder.prompts.render(
        "govsim/memory",
        harvest=f"{report(done)}{own}",
        summary_text=read_summary(summary.full_text) if summary else "",
        limit=read_limit(limit.full_text) if limit else None,
        notes=note.full_text.strip(),
    )


def _talk(state: Fishery, builder: PromptBuilder) -> tuple[Part, ...]:
    """Return the harvest, and the utterances about it: the part of each reply that is meant for others."""
    game, done = game_of(state), state["world"]["harvests"][-1]
    own = own_catch(done, builder.agent) if builder.agent in done["caught"] else ""
    spoken = [[each.agent, _utterance(state, each, builder.agent)] for each in _spoken(state)]
    slots = {"report": report(done), "own": own, "trajectory": spoken, "talks": game.language}
    return builder.prompts.render("govsim/talk_so_far", **slots)


def _utterance(state: Fishery, message: Message, hearer: str) -> MessageRef | str:
    span = read_utterance(message.full_text, present(state)).span
    start, end = (at - len(message.begun) for at in span)
    return MessageRef(message, ((start, end),), own=message.agent == hearer) if start < end else ""


def _summary_turns(run: RunContext[GovSim], builder: PromptBuilder, state: Fishery, act: str) -> tuple[Turn, ...]:
    asked = blocks(_talk(state, builder), builder.prompts.render(f"govsim/{act}", steps=builder.steps))
    return (*builder.system_turn(), Turn("user", asked))


# Decision


def by_survival(run: RunContext[GovSim], state: Fishery) -> Decision:
    """Return the number of months that the fish lasted; the score is 1 if they lasted for all."""
    game, world = game_of(state), state["world"]
    went, left = ended(game, world), counted(world["harvests"][-1]["left"], "ton")
    lasted = f"the fish lasted all {counted(game.months, 'month')}"
    died = f"the fish died out in month {went.months} of {game.months}"
    wanted = [read_tons(each.full_text) for each in current_messages(state) if each.act == WISH]
    decision: Decision = {
        "answer": counted(went.months, "month"),
        "rule": "survival",
        "why": f"{lasted if went.survived else died}, with {left} left",
        "votes": [],
        "score": float(went.survived),
        "measures": measures(went) | {"resets": len(state["epochs"])},
    }
    return with_unreadable(decision, wanted.count(None), len(wanted), "wishes could not be read, and count as 0 tons")
