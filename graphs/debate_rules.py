"""Rules of debates after Du et al.: which messages are heard, roles written before, votes at the end.

Stars and the choice of messages follow DAR (arXiv 2603.20640), rings sparse debates (Li et al. 2024), votes, early ends
and written roles MALLM (arXiv 2509.11656). All are functions of settings and board, so a resumed debate decides alike.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sottovoce.agents.ask import HUMAN, Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.core.errors import UsageError
from sottovoce.core.event_loop import off_loop
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.nodes.decide import Viewpoint, decided, leading, viewpoints, votes_of
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks, own_turn
from sottovoce.nodes.say import noted, say
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, rounds_of, said
from sottovoce.prompts import kinds
from sottovoce.prompts.render import Prompts, without_marks
from sottovoce.prompts.structured import read_json

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

Hears = Literal["all", "ring", "star"]
Retain = Literal["all", "certain", "agreeing", "differing", "diverse"]
Stop = Literal["never", "majority", "two_thirds", "all"]
MODERATOR, JUDGE, WRITER = "moderator", "judge", "writer"
"""The agents that choose messages, decide, and write roles; the last uses the first agent's model."""
VOTES = ("plurality", "approval", "ranked", "cumulative")
"""The rules by which agents vote at the end for the answers of the last round."""
MOST_RANKED, POINTS = 5, 10
ITEM_TOKENS = 12
"""Most tokens of an item in a list of agents or answers."""
SHARE = 0.5
"""The share of messages that `certain` keeps, if none is set."""


def is_heard(speaker: int, hearer: int, agents: int, hears: Hears) -> bool:
    """Return True if an agent, by its place, hears another: its neighbours in a ring; to or from the first in a star.

    >>> [i for i in range(5) if is_heard(i, 0, 5, "ring")], [i for i in range(5) if is_heard(i, 2, 5, "star")]
    ([1, 4], [0])
    """
    if hears == "star":
        return speaker != hearer and 0 in (speaker, hearer)
    return speaker != hearer and (hears == "all" or (speaker - hearer) % agents in (1, agents - 1))


# Votes of a round


def shares_facts(run: RunContext[Any], state: Discussion, agent: str) -> bool:
    """Return True if an agent's first message tells the facts that it has, and no answer."""
    return run.settings.rounds > 1 and run.agent(agent).prompt_builder(state).knows_a_part


def votes_in(run: RunContext[Any], state: Discussion, round: int) -> list[Vote]:
    """Return the votes of a round. An agent that shared its facts abstains."""
    votes = votes_of(run, state, round)
    silent = [vote["agent"] for vote in votes if not round and shares_facts(run, state, vote["agent"])]
    return [{**vote, "answer": None, "counts": False} if vote["agent"] in silent else vote for vote in votes]


def of_debaters(run: RunContext[Any], votes: Sequence[Vote]) -> list[Vote]:
    """Return the votes that count: those of debaters, whose messages are not prescribed."""
    roles = run.settings.roles()
    return [vote for vote in votes if roles[vote["agent"]] == "debater"] or list(votes)


def majority_of(run: RunContext[Any], state: Discussion, round: int) -> str:
    """Return the most frequent answer of a round, or an empty text if there is none."""
    best = leading(viewpoints(of_debaters(run, votes_in(run, state, round)), state))
    return best[0].answer if best else ""


def count(run: RunContext[Any], state: Discussion) -> Update:
    """Count the votes of a round if its end may depend on them. A round in which agents share facts has none."""
    if run.settings.stop == "never" and run.settings.rule not in (*VOTES, JUDGE):
        return {}
    if not state["round"] and any(shares_facts(run, state, name) for name in run.settings.speakers()):
        return {"votes": []}
    return {"votes": of_debaters(run, votes_in(run, state, state["round"]))}


def is_agreed(votes: Sequence[Vote], state: Mapping[str, Any], stop: str) -> bool:
    """Return True if enough agents gave the same answer; those that abstain count as others."""
    most, n = max((len(each.votes) for each in viewpoints(votes, state)), default=0), len(votes)
    enough = {"majority": 2 * most > n, "two_thirds": 3 * most >= 2 * n, "all": most == n}
    return most > 0 and enough.get(stop, False)


# Messages that are heard


def senders(run: RunContext[Any], state: Discussion, round: int, agent: str) -> list[str]:
    """Return the agents whose messages of a round an agent hears; all that it can hear if none of them is kept."""
    heard = [speaker for speaker, hearer in run.settings.edges() if hearer == agent]
    if len(heard) < 2 or run.settings.retain == "all":
        return heard
    chosen = retained(run, state, round)
    return [name for name in heard if name in chosen] or heard


def retained(run: RunContext[Any], state: Discussion, round: int) -> Collection[str]:
    """Return the agents whose messages of a round are kept; one set for all hearers."""
    retain, speakers = run.settings.retain, run.settings.speakers()
    if retain == "diverse":
        message = said(state, MODERATOR, round, ("moderate",))
        return named(message.whole_text)[0] if message else ()
    if retain == "certain":
        spoken, share = rounds_of(state, run.answers)[round], run.settings.retain_share or SHARE
        number = int(share if share >= 1 else share * len(speakers))
        return sorted(speakers, key=lambda name: certainty(spoken[name]))[: max(number, 1)]
    majority, kind = majority_of(run, state, round), kinds.kind_of(state)
    agree = [vote["agent"] for vote in votes_in(run, state, round) if kinds.same(vote["answer"], majority, kind)]
    return agree if retain == "agreeing" else [name for name in speakers if name not in agree]


def certainty(message: Message) -> float:
    """Return the mean negative log-likelihood of a message's tokens, in nats: the lower, the more certain.

    Raises:
        UsageError: the message has none.
    """
    nats = message.stats.get("mean_nll")
    if nats is None or message.source == HUMAN:  # whoever edits a message keeps its statistics
        raise UsageError(
            f"the message of {message.agent!r} in round {message.round + 1} has no log-likelihood of its tokens, which "
            "`retain='certain'` and `show_certainty=True` read; use local models, or hosted ones that return "
            "log-probabilities, and let nobody rewrite messages"
        )
    return nats


def named(text: str) -> tuple[list[str], str]:
    """Return the agents in a moderator's list, and what is wrong with it.

    >>> named("[agent_1, agent_3]"), named("agent_2, since agent_1 agrees")
    ((['agent_1', 'agent_3'], ''), ([], 'it is no list of agents'))
    """
    items = [item for item in re.findall(r"\w+", text.casefold()) if item != "and"]
    if not items or not all(re.fullmatch(r"agent_\d+", item) for item in items):
        return [], "it is no list of agents"
    return items, ""


async def moderate(run: RunContext[Any], state: Discussion, agent: Agent) -> Update:
    """Return the moderator's choice among the messages of the round. An unreadable one keeps all."""
    builder, names, spoken = agent.prompt_builder(state), run.settings.speakers(), rounds_of(state, run.answers)[-1]
    form = words(builder.prompts.render("debate/form", rule="moderate"))
    request = builder.prompts.render(
        "debate/moderate",
        statements=[(name, MessageRef(spoken[name])) for name in names],
        majority=without_marks(await off_loop(majority_of, run, state, state["round"])),
        form=form,
    )
    known = builder.known(builder.documents())
    turns = (*builder.system_turn(), Turn("user", blocks(known, builder.question_of(""), request)))
    ask = listing(Ask("moderate", turns), names, 1, len(names))

    def validate(message: Message) -> str:
        return named(message.whole_text)[1]

    return {"board": await say(run, state, agent, ask, validate=validate, requested=form)}


def listing(ask: Ask, items: Sequence[str], least: int, most: int) -> Ask:
    """Return a request for a list of items in words, separated by commas."""
    one = f"({'|'.join(items)})"
    form = Form(pattern=f"{one}(, {one}){{{least - 1},{most - 1}}}", unknown=False)
    return replace(ask, response_format=form, protocol="nl", max_tokens=ITEM_TOKENS * (most + 1))


def remark_on(run: RunContext[Any], state: Discussion, round: int, prompts: Prompts) -> tuple[Part, ...]:
    """Return the line that states a round's majority answer, if the settings show it and there is one."""
    answer = majority_of(run, state, round) if run.settings.shows("majority") else ""
    return prompts.render("debate/majority", answer=without_marks(answer)) if answer else ()


def with_certainty(turns: Sequence[Turn], prompts: Prompts) -> tuple[Turn, ...]:
    """Return a prompt with a line behind each message of others that states how certain it is."""

    def parts_of(part: Part) -> tuple[Part, ...]:
        if isinstance(part, str) or part.own:
            return (part,)
        return part, "\n", *prompts.render("debate/certainty", value=f"{certainty(part.message):.4f}")

    return tuple(
        replace(turn, parts=blocks([each for part in turn.parts for each in parts_of(part)])) for turn in turns
    )


# Written roles

SHORT, LONG = (Form(pattern=rf'[^"\\\n]{{1,{most}}}', unknown=False) for most in (40, 200))


def keys_of(agents: Sequence[str]) -> list[str]:
    """Return the keys of the written roles: two for each agent."""
    return [f"{agent}_{part}" for agent in agents for part in ("role", "description")]


async def write_personas(run: RunContext[Any], state: Discussion, agent: Agent) -> Update:
    """Return a role and a description for each debater, before the first round; nothing in later ones."""
    if state["round"]:
        return {}
    builder = agent.prompt_builder(state)
    keys = keys_of([name for name, role in run.settings.roles().items() if role == "debater"])
    request = builder.prompts.render("debate/personas", number=len(keys) // 2, keys=keys)
    form = Form.of_object(*keys, **{key: SHORT if key.endswith("_role") else LONG for key in keys})
    ask = Ask("write_personas", (Turn("user", blocks(builder.question_of(""), request)),), form, protocol="nl")

    def validate(message: Message) -> str:
        return "; ".join(f'"{key}" {why}' for key, why in read_json(message.whole_text, keys).missing.items())

    board = await say(run, state, agent, ask, validate=validate, requested=words(request))
    return {"board": board, "turn": state["turn"] + 1}


def builder_of(run: RunContext[Any], state: Discussion, agent: Agent) -> PromptBuilder:
    """Return an agent's prompt builder. A role that was written for it follows its system prompt."""
    builder = agent.prompt_builder(state)
    message = said(state, WRITER, 0, ("write_personas",)) if run.settings.persona == "written" else None
    values = read_json(message.whole_text, keys_of([agent.name])).values if message else {}
    if not values:
        return builder
    parts = {part: without_marks(values.get(f"{agent.name}_{part}", "")) for part in ("role", "description")}
    persona = words(builder.prompts.render("debate/persona", **parts))
    return replace(builder, system="\n".join(filter(None, (builder.system, persona))))


# Votes at the end


def candidates(run: RunContext[Any], state: Discussion, voter: str) -> list[Viewpoint]:
    """Return the different answers of the last round, in a random order of each voter: it tells nothing of authors."""
    found = viewpoints(of_debaters(run, votes_in(run, state, state["round"])), state)
    random.Random(run.seed(state, voter, "candidates")).shuffle(found)
    return found


def read_numbers(rule: str, number: int, text: str) -> tuple[list[int], str]:
    """Return the answers that a vote names, by number, in its last line that has any, and what is wrong with it.

    >>> read_numbers("ranked", 3, "2, 3, 1"), read_numbers("plurality", 2, "I vote for 3")
    (([2, 3, 1], ''), ([], 'there is no answer 3'))
    """
    last = next((line for line in reversed(text.splitlines()) if re.search(r"\d", line)), "")
    if re.search(r"\d\s*[-\u2013.:)]+\s*\d|[-\u2013]\s*\d", last):  # "1. 2", "1-3", "-2", "1: 7"
        return [], "its last line is no list of numbers, such as 2, 1"
    numbers = [int(each) for each in re.findall(r"(?<!\d)\d{1,4}(?!\d)", last)]
    if rule != "cumulative":
        numbers = list(dict.fromkeys(numbers))
    least, most = limits(rule, number)
    if unknown := [each for each in numbers if not 1 <= each <= number]:
        return [], f"there is no answer {unknown[0]}"
    if not least <= len(numbers) <= most:
        return [], f"it names {len(numbers)} answers" if numbers else "it names no answer by its number"
    return numbers, ""


def limits(rule: str, number: int) -> tuple[int, int]:
    """Return the least and the greatest length of a vote: a list of numbers of answers, or one for each point."""
    lengths = {"approval": (1, number), "ranked": (1, min(MOST_RANKED, number)), "cumulative": (POINTS, POINTS)}
    return lengths.get(rule, (1, 1))


async def cast_vote(run: RunContext[Any], state: Discussion, agent: Agent) -> Update:
    """Return a debater's vote for the answers of the last round, which it sees under numbers."""
    if run.settings.roles()[agent.name] != "debater":
        return {}
    builder, own = builder_of(run, state, agent), rounds_of(state, run.answers)[-1][agent.name]
    answers = [without_marks(each.answer) for each in await off_loop(candidates, run, state, agent.name)]
    form = words(builder.prompts.render("debate/form", rule=run.settings.rule))
    request = Turn("user", builder.prompts.render("debate/vote", answers=answers, form=form))
    turns = (*builder.system_turn(), Turn("user", builder.full_turn("")), own_turn(own), request)
    return {"board": await _voted(run, state, agent, Ask("vote", turns), run.settings.rule, answers, form)}


async def judge(run: RunContext[Any], state: Discussion, agent: Agent) -> Update:
    """Return the judge's choice among the answers of the last round, which it reads with all final messages."""
    builder, spoken = agent.prompt_builder(state), rounds_of(state, run.answers)[-1]
    found = await off_loop(candidates, run, state, agent.name)
    form = words(builder.prompts.render("debate/form", rule=JUDGE))
    shown = [(without_marks(each.answer), [MessageRef(spoken[name]) for name in each.agents]) for each in found]
    request = builder.prompts.render("debate/judge", viewpoints=shown, form=form)
    known = builder.known(builder.documents())
    turns = (*builder.system_turn(), Turn("user", blocks(known, builder.question_of(""), request)))
    return {"board": await _voted(run, state, agent, Ask(JUDGE, turns), JUDGE, [answer for answer, _ in shown], form)}


async def _voted(
    run: RunContext[Any], state: Discussion, agent: Agent, ask: Ask, rule: str, answers: Sequence[str], form: str
) -> list[Message]:
    """Ask for a vote; a note on it says which answers its numbers mean."""
    n = len(answers)
    items = [str(number) for number in range(n, 0, -1)]  # 10 before 1
    ask = listing(ask, items, *limits(rule, n))

    def validate(message: Message) -> str:
        return read_numbers(rule, n, message.whole_text)[1]

    *before, last = await say(run, state, agent, ask, validate=validate, requested=form)
    given = Counter(answers[number - 1] for number in read_numbers(rule, n, last.whole_text)[0])
    meant = [answer if times == 1 else f"{answer} ×{times}" for answer, times in given.items()]
    return [*before, noted(last, f"for {', '.join(meant)}") if meant else last]


def by_votes(run: RunContext[Any], state: Discussion, votes: list[Vote], rule: str) -> Decision:
    """Decide by the judge or by the most points; at a tie by the setting `tie`. One answer alone needs no vote."""
    found, points, abstained = viewpoints(votes, state), Counter[str](), 0
    if len(found) < 2:
        why = f"{len(found[0].votes)} of {len(votes)} say {found[0].answer}, and nobody another answer" if found else ""
        return decided(rule, why, found, votes, state)
    for voter in [JUDGE] if rule == JUDGE else [vote["agent"] for vote in votes]:
        message, listed = said(state, voter, state["round"], (JUDGE, "vote")), candidates(run, state, voter)
        numbers = read_numbers(rule, len(listed), message.whole_text)[0] if message else []
        abstained += not numbers
        for place, number in enumerate(numbers):
            points[listed[number - 1].answer] += min(MOST_RANKED, len(votes)) - place if rule == "ranked" else 1
    if rule == JUDGE:
        did = "was asked, and its answer could not be read" if abstained else "decided"
        shown: list[Vote] = [{**vote, "counts": False} for vote in votes]
        return {**decided(rule, f"the judge {did}", [], shown, state, (next(iter(points), None),)), "by": JUDGE}
    if not points:
        return decided(rule, "no vote could be read", [], votes, state, (None,))
    best = leading(found, points=points)
    unit = {"plurality": "votes", "approval": "approvals"}.get(rule, "points")
    why = f"{points[best[0].answer]} of {points.total()} {unit} for {best[0].answer}"
    why += f" ({counted(abstained, 'vote')} could not be read)" if abstained else ""
    return decided(rule, why, best, votes, state)
