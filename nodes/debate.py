"""The acts of a debater, and how a debate is decided: by majority, by the coldest agent, or on average."""

from __future__ import annotations

import random

from sottovoce.channels.message import Message, Turn
from sottovoce.errors import UsageError
from sottovoce.nodes.act import Act, Steps
from sottovoce.nodes.company import Company
from sottovoce.nodes.decide import decided, last_votes, majority
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import Debate
from sottovoce.nodes.stage import Stage, derived_seed
from sottovoce.nodes.state import Decision, Discussion, Vote, question_id, said
from sottovoce.nodes.summarise import SUMMARISER, summary_of
from sottovoce.prompts import kinds


def debate(company: Company[Debate], agent: str) -> Act:
    """One debater's round: the first answer, or a revision of it."""

    def act(state: Discussion) -> Steps:
        stage, round = company.stage(state), state["round"]
        role = stage.settings.roles()[agent]
        if not _speaks(stage, agent, round):
            return {}
        if role != "debater":
            return {"board": [_given(state, stage, agent, role)]}
        heard: list[Message] = []
        if round and stage.settings.summarise == "each":
            others = _others(state, stage, agent, round - 1)
            heard = [(yield from summary_of(state, stage, agent, others))]
        turns = _turns(state, stage, agent, heard)
        spoken = yield from say(stage, state, agent, turns, "revise" if round else "answer")
        return {"board": [*heard, *spoken]}

    return act


def deciding_agent(stage: Stage[Debate]) -> str:
    """The debater with the lowest temperature, the first of several (CIPHER)."""
    debaters = [name for name, role in stage.settings.roles().items() if role == "debater"]
    warmth = {name: stage.temperature(name) for name in debaters or stage.settings.names()}
    return min(warmth, key=lambda name: float("inf") if (found := warmth[name]) is None else found)


def _speaks(stage: Stage[Debate], agent: str, round: int) -> bool:
    """In the last round the deciding agent alone may speak: n(R - 1) + 1 replies in all (CIPHER)."""
    if stage.settings.last_round == "all" or round < stage.settings.rounds - 1:
        return True
    return agent == deciding_agent(stage)


def _turns(state: Discussion, stage: Stage[Debate], agent: str, summary: list[Message]) -> list[Turn]:
    settings, view = stage.settings, stage.view(state, agent, agent)
    rounds = range(state["round"])
    if not rounds:
        return view.independent()
    own = [_must(state, agent, r) for r in rounds]
    if settings.summarise == "each":
        earlier = [_must(state, agent, r, "summarise") for r in rounds[:-1]]
        return view.history_of_summaries(own, [*earlier, *summary])
    if settings.summarise == "shared":
        return view.history_of_summaries(own, [_must(state, SUMMARISER, r, "summarise") for r in rounds])
    if settings.shape == "fresh":
        return view.fresh(own[-1], _others(state, stage, agent, rounds[-1]), settings.order)
    return view.history(own, [_others(state, stage, agent, r) for r in rounds], settings.order)


def _others(state: Discussion, stage: Stage[Debate], agent: str, round: int) -> list[Message]:
    return [_must(state, other, round) for other in stage.settings.names() if other != agent]


def _must(state: Discussion, agent: str, round: int, act: str | None = None) -> Message:
    message = said(state, agent, round, act)
    if message is None:
        raise UsageError(f"{agent!r} has no message of round {round} on the board; resume the run from an earlier step")
    return message


def _given(state: Discussion, stage: Stage[Debate], agent: str, role: str) -> Message:
    """What an expert or a dummy says: words without a payload (CIPHER's bounds)."""
    act, round = "revise" if state["round"] else "answer", state["round"]
    texts = [state["solution"]] if role == "expert" else state["decoys"]  # the opening saw to it that they are there
    # Drawn anew at each call, as the published code does.
    seed = derived_seed(stage.settings.seed, question_id(state), round, agent, role)
    return Message(agent, round, act, random.Random(seed).choice(texts), source=role)


def by_rule(stage: Stage[Debate], state: Discussion) -> Decision:
    """The rule as set; else that of the one agent that speaks last, where only one does; else the protocol's own."""
    votes, roles = last_votes(stage, state), stage.settings.roles()
    debaters = [vote for vote in votes if roles[vote["agent"]] == "debater"] or votes
    rule: str | None = stage.settings.rule
    if rule is None:
        rule = "lowest_temperature" if stage.settings.last_round == "deciding" else stage.final_rule()
    if rule == "lowest_temperature":
        decision = by_agent(debaters, deciding_agent(stage), state)
    else:
        decision = average(debaters, state) if rule == "average" else majority(debaters, state)
    read = {vote["agent"]: vote for vote in decision["votes"]}
    # What an expert or a dummy says was given to it: it is shown, and decides nothing.
    shown: list[Vote] = [read.get(vote["agent"], {**vote, "counts": False}) for vote in votes]
    return {**decision, "votes": shown}


def by_agent(votes: list[Vote], agent: str, question: Discussion) -> Decision:
    """The answer of the agent with the lowest temperature (CIPHER)."""
    marked: list[Vote] = [{**vote, "counts": vote["agent"] == agent} for vote in votes]
    answer = next((vote["answer"] for vote in marked if vote["counts"]), None)
    why = f"{agent} has the lowest temperature" + ("" if answer is not None else ", and its answer could not be read")
    return decided("lowest_temperature", why, [], marked, question, (answer,))


def average(votes: list[Vote], question: Discussion) -> Decision:
    """No single answer: the score is the share of agents that are right (SDE)."""
    decision = decided("average", "every agent's answer counts by itself", [], votes, question, (None,))
    if question.get("target") is None:
        return decision
    right = [kinds.right(vote["answer"], question) for vote in votes]
    return {**decision, "score": sum(right) / len(right)}
