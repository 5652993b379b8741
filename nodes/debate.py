"""The acts and decision rules of a debate: majority, lowest temperature or average (Du et al. 2023)."""

from __future__ import annotations

import random

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, Turn
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.decide import decided, last_votes, majority
from sottovoce.nodes.hearing import others_of
from sottovoce.nodes.say import say, say_answer
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, rounds_of
from sottovoce.prompts import kinds

SUMMARISER = "summariser"
"""The author of the shared summary, which uses the first agent's model."""
SUMMARISE = ("summarise",)


async def take_turn(run: RunContext[Debate], state: Discussion, agent: Agent) -> Update:
    """Return one debater's message of the round: the first answer, or a revision of it."""
    round, role = state["round"], run.settings.roles()[agent.name]
    if not _speaks(run, agent.name, round):
        return {}
    if role != "debater":
        # Text without a payload (CIPHER's bounds), drawn again at each call, as in the published code.
        texts = [state["solution"]] if role == "expert" else state["decoys"]  # `setup` checked that they exist
        text = random.Random(run.seed(state, agent.name, role)).choice(texts)
        return {"board": [run.message(state, agent.name, "revise" if round else "answer", text, source=role)]}
    is_read = _is_read(run, agent.name, round)
    if not round:
        builder, several = agent.prompt_builder(state), run.settings.rounds > 1
        first = Ask("answer", builder.first_turns() if several else builder.independent())
        if builder.knows_a_part and several:  # facts, and the answer in a later round
            return {"board": await say(run, state, agent, first)}
        return {"board": await say_answer(run, state, agent, first, is_read=is_read)}
    summary: list[Message] = []
    if run.settings.summarise == "each":
        before = rounds_of(state, run.answers)[round - 1]
        summary = await summary_of(run, state, agent, others_of(run, state, before, agent))
    ask = Ask("revise", _later_turns(run, state, agent, summary))
    return {"board": [*summary, *await say_answer(run, state, agent, ask, is_read=is_read)]}


async def summarise(run: RunContext[Debate], state: Discussion, agent: Agent) -> Update:
    """Return one shared summary of the round."""
    spoken = rounds_of(state, run.answers)[-1]
    answers = [spoken[name] for name in run.settings.speakers() if name in spoken]
    return {"board": await summary_of(run, state, agent, answers)}


async def summary_of(
    run: RunContext[Debate], state: Discussion, agent: Agent, messages: list[Message]
) -> list[Message]:
    """Return `agent`'s summary of messages, which it hears by the protocol; the summary is text."""
    reader = run.agent(run.settings.speakers()[0]) if agent.name == SUMMARISER else agent
    turns = reader.prompt_builder(state).summarise(messages)
    return await say(run, state, agent, Ask(SUMMARISE[0], turns, protocol="nl"))


def deciding_agents(run: RunContext[Debate]) -> list[str]:
    """Return the debaters with the lowest temperature, of whom the first decides (CIPHER)."""
    debaters = [name for name, role in run.settings.roles().items() if role == "debater"]
    found = {name: run.agent(name).temperature for name in debaters or run.settings.speakers()}
    heat = {name: float("inf") if each is None else each for name, each in found.items()}
    return [name for name in heat if heat[name] == min(heat.values())]


def _speaks(run: RunContext[Debate], agent: str, round: int) -> bool:
    """Return True if an agent speaks in a round; one alone may speak in the last: n(R - 1) + 1 replies (CIPHER)."""
    if run.settings.last_round == "all" or round < run.settings.rounds - 1:
        return True
    return agent == deciding_agents(run)[0]


def _is_read(run: RunContext[Debate], agent: str, round: int) -> bool:
    """Return True if the rule reads an agent's answer of this round, or hearers choose by the round's votes."""
    if run.settings.escalate == "disagreement":
        return True
    last = round == run.settings.rounds - 1
    return last and (rule_of(run) != "lowest_temperature" or agent == deciding_agents(run)[0])


def _later_turns(run: RunContext[Debate], state: Discussion, agent: Agent, summary: list[Message]) -> tuple[Turn, ...]:
    settings, builder = run.settings, agent.prompt_builder(state)
    rounds = rounds_of(state, run.answers)[:-1]
    own = [spoken[agent.name] for spoken in rounds]
    if settings.summarise != "none":  # an agent reads its own summaries in the round after
        by = SUMMARISER if settings.summarise == "shared" else agent.name
        summaries = [spoken[by] for spoken in rounds_of(state, SUMMARISE) if by in spoken]
        return builder.history_of_summaries(own, [*summaries, *summary])
    others = [others_of(run, state, spoken, agent) for spoken in rounds]
    if settings.shape == "fresh" and not (len(rounds) == 1 and builder.lists_facts(settings.order)):
        return builder.fresh(own[-1], others[-1], settings.order)
    return builder.history(own, others, settings.order)


def rule_of(run: RunContext[Debate]) -> str:
    """Return the rule that is set, else that of the only agent of the last round, else the protocol's."""
    if run.settings.rule is not None:
        return run.settings.rule
    return "lowest_temperature" if run.settings.last_round == "deciding" else run.final_rule()


def by_rule(run: RunContext[Debate], state: Discussion) -> Decision:
    """Decide by the rule; the messages of experts and dummies are shown but do not count."""
    votes, roles, rule = last_votes(run, state), run.settings.roles(), rule_of(run)
    debaters = [vote for vote in votes if roles[vote["agent"]] == "debater"] or votes
    if rule == "lowest_temperature":
        decision = by_agent(debaters, deciding_agents(run), state)
    else:
        decision = average(debaters, state) if rule == "average" else majority(debaters, state)
    read = {vote["agent"]: vote for vote in decision["votes"]}
    # The messages of experts and dummies are prescribed: their votes are shown but do not count.
    shown: list[Vote] = [read.get(vote["agent"], {**vote, "counts": False}) for vote in votes]
    return {**decision, "votes": shown}


def by_agent(votes: list[Vote], agents: list[str], question: Discussion) -> Decision:
    """Decide by the answer of the first agent with the lowest temperature (CIPHER)."""
    agent = agents[0]
    shown: list[Vote] = [{**vote, "counts": vote["agent"] == agent} for vote in votes]
    answer = next((vote["answer"] for vote in shown if vote["counts"]), None)
    best = "has" if len(agents) == 1 else "is the first with"
    why = f"{agent} {best} the lowest temperature"
    why += "" if answer is not None else ", and its answer could not be read"
    return decided("lowest_temperature", why, [], shown, question, (answer,))


def average(votes: list[Vote], question: Discussion) -> Decision:
    """Return a decision without an answer: the score is the share of agents that are right (SDE)."""
    decision = decided("average", "every agent's answer counts by itself", [], votes, question, (None,))
    if question.get("target") is None:
        return decision
    right = [kinds.right(vote["answer"], question) for vote in votes]
    return {**decision, "score": sum(right) / len(right)}
