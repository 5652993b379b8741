"""The acts of GovSim's fishery: talk, its summary, private notes, wishes; the harvest, and how a game ends.

An agent's memory is what happened last: the report, the summary of the talk with the limit that was agreed on, and
its own notes. The authors retrieve memories by recency, importance and likeness; what is always included there is
all that is kept here. Others hear the utterance of a reply to the talk alone, and notes and wishes are nobody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from langchain_core.runnables import RunnableLambda

from sottovoce.agents.ask import Ask
from sottovoce.agents.hooked import WORDS
from sottovoce.channels.message import Heard, Message, Part, Turn, words
from sottovoce.environments.govsim import rules
from sottovoce.environments.govsim.games import Game
from sottovoce.environments.govsim.harvest import read_tons
from sottovoce.environments.govsim.metrics import Ended, ended, measures
from sottovoce.environments.govsim.rules import Month, World, is_over, opening, own_catch, report
from sottovoce.environments.govsim.talk import next_speaker, read_limit, read_summary, read_utterance
from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.question import question_id
from sottovoce.nodes.say import BEGUN, say
from sottovoce.nodes.settings import GovSim
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, heard, moment, said
from sottovoce.nodes.views import View, blocks

TALK, SUMMARISE, LIMIT, REFLECT, WISH, HARVEST = "talk", "summarise", "limit", "reflect", "wish", "harvest"
SUMMARIZER, LAKE = "summarizer", "lake"
WIDTH = 30
"""Of the bar that shows the lake, in characters."""


class Fishery(Discussion):
    """The state of a game."""

    world: Annotated[World, RESTORED]
    """The month, the lake, and all harvests."""


# What they do


def begin(run: RunContext[GovSim], state: Discussion) -> Update:
    """The game that the question brings; without one, that of the settings, with the run's seed and the question's id.

    Raises:
        UsageError: it is none, or one of more or fewer agents.
    """
    given, settings = state.get("game"), run.settings
    if given is None:
        game = settings.game(f"{settings.seed}/{question_id(state)}")
    else:
        game = settings.seated(given)
    return {"game": game.model_dump(mode="json"), "world": opening(game)}


async def talk(run: RunContext[GovSim], state: Fishery, agent: str) -> Update:
    """One utterance, which names the next speaker or ends the talk."""
    there = present(state)
    ask = Ask(agent, TALK, talk_turns(run, state, agent), utterance_form([each for each in there if each != agent]))
    *before, message = await say(run, state, ask)
    utterance = read_utterance(message.whole, there)
    named = f"names {utterance.following}" if utterance.following else "names nobody"
    note = "ends the talk" if utterance.done else named
    return {"board": [*before, _noted(message, note)], "turn": state["turn"] + 1}


async def summarise(run: RunContext[GovSim], state: Fishery, agent: str) -> Update:
    """The talk in one sentence, and the limit that was agreed on; heard by the protocol, said in words."""
    view, most = run.view(state, agent), game_of(state).start
    board = await say(run, state, Ask(agent, SUMMARISE, _told(run, view, state, SUMMARISE), protocol=WORDS))
    ask = Ask(agent, LIMIT, _told(run, view, state, LIMIT), protocol=WORDS)
    board += await say(run, state, _answering(ask, view, f"N/A|{tons_pattern(most)}"))
    return {"board": board, "turn": state["turn"] + 1}


async def reflect(run: RunContext[GovSim], state: Fishery, agent: str) -> Update:
    """Ask for a plan and for what the agent wants to remember, in free text that nobody else reads."""
    return {"board": await say(run, state, Ask(agent, REFLECT, reflect_turns(run, state, agent), protocol=WORDS))}


async def wish(run: RunContext[GovSim], state: Fishery, agent: str) -> Update:
    """How many tons it wants, in private; what cannot be read is none."""
    pool, turns = state["world"]["pool"], wish_turns(run, state, agent)
    ask = _answering(Ask(agent, WISH, turns, protocol=WORDS), run.view(state, agent), tons_pattern(pool))
    *before, message = await say(run, state, ask, complain=_unreadable, repairs=0)
    tons = read_tons(message.whole)
    return {"board": [*before, _noted(message, f"wants {tons or 0} tons")]}


def deed(update: Update) -> str:
    """Of a wish: tons are taken from the lake for it."""
    return HARVEST


def next_month(contexts: Contexts[GovSim]) -> RunnableLambda[Fishery, Update]:
    """The node in which the fish double, unless the game is over."""

    def next_month(state: Fishery) -> Update:
        contexts.of(state)  # refuses what somebody edited
        game, world = game_of(state), state["world"]
        if not rules.is_harvested(world):
            raise UsageError(f"month {world['month']} was not harvested; resume the run from an earlier step")
        after = world if is_over(game, world) else rules.next_month(game, world)
        return {"world": after, "turn": state["turn"] + 1}

    return RunnableLambda(next_month, name="next_month")


def harvest(contexts: Contexts[GovSim]) -> RunnableLambda[Fishery, Update]:
    """The node in which the wishes are shared out; nothing of it can be taken back."""

    def harvest(state: Fishery) -> Update:
        run = contexts.of(state)
        game, wanted = game_of(state), {each.agent: read_tons(each.whole) for each in wishes(state)}
        if rules.is_harvested(state["world"]) or set(wanted) != set(present(state)):
            raise UsageError(f"in this month there are wishes of {sorted(wanted)}; resume the run from an earlier step")
        world = rules.harvest(game, state["world"], wanted)
        epoch, round, turn = moment(state)
        done, order = world["harvests"][-1], run.order(LAKE)
        message = Message(LAKE, round, HARVEST, report(done), epoch=epoch, turn=turn + 1, order=order, source="rule")
        message = replace(message, notes=_shown(game, done))
        return {"board": [message.to_dict()], "world": world, "turn": turn + 1, "marks": []}

    return RunnableLambda(harvest, name="harvest")


def wishes(state: Fishery) -> list[Message]:
    """What was wished for in this month."""
    return [each for each in heard(state) if each.act == WISH and each.round == state["round"]]


def game_of(state: Discussion) -> Game:
    """Return the game that is played.

    Raises:
        UsageError: there is none, as somebody edited the state.
    """
    if state.get("game") is None or "world" not in state:
        raise UsageError("the state has no 'game' and 'world', which the opening wrote; go on from an earlier step")
    return Game.model_validate(state["game"])


def present(state: Fishery) -> list[str]:
    """Who is there in the month that is played, or talked about."""
    return game_of(state).present(state["world"]["month"])


def speaker_of(state: Fishery) -> str | None:
    """Who speaks next in the talk; None where it is over."""
    spoken, there = _spoken(state), present(state)
    last = read_utterance(spoken[-1].whole, there) if spoken else None
    return next_speaker(there, [each.agent for each in spoken], last, int(state["settings"]["utterances"]) + 1)


def game_over(state: Fishery) -> bool:
    """Whether no month follows."""
    return is_over(game_of(state), state["world"])


def _spoken(state: Fishery) -> list[Message]:
    return [each for each in heard(state) if each.act == TALK and each.round == state["round"]]


def _unreadable(text: str) -> str:
    return "" if read_tons(text) is not None else "it holds no number of tons, and counts as 0"


def _noted(message: Message, note: str) -> Message:
    return replace(message, notes=(*message.notes, note))


def _shown(game: Game, done: Month) -> tuple[str, ...]:
    """The lake after a harvest, for a reader."""
    left, wanted, pool = done["left"], sum(done["wanted"].values()), done["pool"]
    full = round(WIDTH * left / game.start)
    bar = f"[{'#' * full}{'.' * (WIDTH - full)}] {_tons(left)} left of {pool}"
    gone = left < game.collapse
    what_next = "the fish die out" if gone else f"they double to {min(game.start, 2 * left)}"
    short = [f"all together wanted {wanted} tons"] if wanted > pool else []
    return (f"{bar}; {what_next}", *short)


# The forms of replies


def _answering(ask: Ask, view: View, pattern: str) -> Ask:
    """Keep the line of the answer to a pattern, behind free reasoning; without steps the answer alone is written."""
    if view.steps:
        return replace(ask, form=Form(pattern=pattern, after=BEGUN, unknown=False))
    return replace(ask, form=Form(pattern=pattern, spaced=True, unknown=False), begun=BEGUN, stop=("\n",))


def tons_pattern(most: int) -> str:
    """Every number of tons up to so many."""
    return f"(?:{'|'.join(map(str, range(most + 1)))}) tons"


def utterance_form(others: Sequence[str]) -> Form:
    """Return the form of the lines behind a free utterance: whether the talk is over, and which other speaks next."""
    return Form(pattern=rf"(?:yes|no)\nNext: (?:{'|'.join(others)})", after="Done:", unknown=False)


# What they know and hear


def talk_turns(run: RunContext[GovSim], state: Fishery, agent: str) -> tuple[Turn, ...]:
    """The memory of the talk before, the harvest, and what was said about it so far."""
    view, others = run.view(state, agent), [each for each in present(state) if each != agent]
    asked = view.prompts.render("govsim/talk", others=others)
    return _asked(state, view, _memory(state, view, state["round"] - 1), _talk(state, view), asked)


def reflect_turns(run: RunContext[GovSim], state: Fishery, agent: str) -> tuple[Turn, ...]:
    """The harvest and all that was said about it."""
    view = run.view(state, agent)
    return _asked(state, view, _talk(state, view), view.prompts.render("govsim/reflect"))


def wish_turns(run: RunContext[GovSim], state: Fishery, agent: str) -> tuple[Turn, ...]:
    """What it remembers, what the lake holds, and the question."""
    view, world = run.view(state, agent), state["world"]
    lake = view.prompts.render("govsim/lake", month=world["month"], pool=world["pool"])
    form = words(view.prompts.render("govsim/wish", pool=world["pool"], steps=view.steps))
    return _asked(state, view, _memory(state, view, state["round"]), lake, view.question_of(form))


def _asked(state: Fishery, view: View, *parts: Sequence[Part]) -> tuple[Turn, ...]:
    """The rules, then what belongs to the task, and these parts."""
    game = game_of(state)
    others = [each for each in present(state) if each != view.agent]
    system = view.prompts.render("govsim/fisher", me=view.agent, others=others, start=game.start)
    return (*view.system_turn(*system), Turn("user", blocks(view.known([]), *parts)))


def _memory(state: Fishery, view: View, round: int) -> tuple[Part, ...]:
    """What an agent keeps of a round and of the harvest before it; nothing where it was not there."""
    note = said(state, view.agent, round, (REFLECT,))
    if note is None:
        return ()
    summary, limit = (said(state, SUMMARIZER, round, (act,)) for act in (SUMMARISE, LIMIT))
    return view.prompts.render(
        "govsim/memory",
        harvest=_harvested(state, view.agent, round),
        summary_text=read_summary(summary.whole) if summary else "",
        limit=read_limit(limit.whole) if limit else None,
        notes=note.whole.strip(),
    )


def _harvested(state: Fishery, agent: str, month: int) -> str:
    """What all, and an agent alone, are told of the harvest of a month, from 1."""
    done = state["world"]["harvests"][month - 1]
    return f"{report(done)} {own_catch(done, agent)}" if agent in done["caught"] else report(done)


def _talk(state: Fishery, view: View) -> tuple[Part, ...]:
    """The harvest, and the utterances about it: of each reply what is meant for the others."""
    game, done = game_of(state), state["world"]["harvests"][-1]
    own = own_catch(done, view.agent) if view.agent in done["caught"] else ""
    spoken = [[each.agent, _utterance(state, each, view.agent)] for each in _spoken(state)]
    slots = {"report": report(done), "own": own, "trajectory": spoken, "talks": game.language}
    return view.prompts.render("govsim/talk_so_far", **slots)


def _utterance(state: Fishery, message: Message, hearer: str) -> Heard | str:
    span = read_utterance(message.whole, present(state)).span
    start, end = (at - len(message.begun) for at in span)
    return Heard(message, ((start, end),), own=message.agent == hearer) if start < end else ""


def _told(run: RunContext[GovSim], view: View, state: Fishery, act: str) -> tuple[Turn, ...]:
    asked = blocks(_talk(state, view), view.prompts.render(f"govsim/{act}", steps=view.steps))
    return (*view.system_turn(), Turn("user", asked))


# How it ends


def by_survival(run: RunContext[GovSim], state: Fishery) -> Decision:
    """How long the fish lasted; the score is 1 if they did so for all months."""
    game, world = game_of(state), state["world"]
    went = ended(game, world)
    return {
        "answer": _months(went.months),
        "rule": "survival",
        "why": _fate(game, world, went),
        "votes": [],
        "score": float(went.survived),
        "measures": measures(went) | {"resets": len(state["epochs"])},
    }


def _fate(game: Game, world: World, went: Ended) -> str:
    left = world["harvests"][-1]["left"]
    if went.survived:
        return f"the fish lasted all {_months(game.months)}, with {_tons(left)} left"
    return f"the fish died out in month {went.months} of {game.months}, with {_tons(left)} left"


def _tons(n: int) -> str:
    return f"{n} ton{'s' * (n != 1)}"


def _months(n: int) -> str:
    return f"{n} month{'s' * (n != 1)}"
