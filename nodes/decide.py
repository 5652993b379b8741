"""The end of a discussion: read the last answers and decide by a rule."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableLambda

from sottovoce.nodes.act import Update
from sottovoce.nodes.answer import deciding_agent
from sottovoce.nodes.company import Company
from sottovoce.nodes.settings import Debate
from sottovoce.nodes.stage import Stage
from sottovoce.nodes.state import Decision, Discussion, Vote, said
from sottovoce.prompts import answers


def decide(company: Company[Any]) -> RunnableLambda[Discussion, Update]:  # Any: of every scheme
    """Read each agent's last message and decide; an unreadable one abstains."""

    def decide(state: Discussion) -> Update:
        stage = company.stage(state)
        votes = [_vote(state, name) for name in stage.settings.names() if said(state, name, state["round"])]
        debaters = [vote for vote in votes if _is_debater(stage, vote["agent"])] or votes
        decision = _by_rule(stage, debaters, state)
        read = {vote["agent"]: vote for vote in decision["votes"]}
        # What an expert or a dummy says was given to it: it is shown, and decides nothing.
        shown: list[Vote] = [read.get(vote["agent"], {**vote, "counts": False}) for vote in votes]
        return {"decision": {**decision, "votes": shown}}

    return RunnableLambda(decide, name="decide")


def _rule(stage: Stage[Any]) -> str:  # Any: see decide
    """As set; else that of the one agent that speaks last, where only one does; else the protocol's own."""
    if not isinstance(stage.settings, Debate):
        return "majority"
    if stage.settings.rule is not None:
        return stage.settings.rule
    return "lowest_temperature" if stage.settings.last_round == "deciding" else stage.final_rule()


def _by_rule(stage: Stage[Any], votes: list[Vote], state: Discussion) -> Decision:  # Any: see decide
    rule = _rule(stage)
    if rule == "lowest_temperature":
        return by_agent(votes, deciding_agent(stage), state)
    return average(votes, state) if rule == "average" else majority(votes, state)


def _is_debater(stage: Stage[Any], agent: str) -> bool:  # Any: see decide
    return not isinstance(stage.settings, Debate) or stage.settings.roles()[agent] == "debater"


def majority(votes: list[Vote], question: Discussion) -> Decision:
    """The most frequent answer; of several, the one that its first agent gave first (Du et al.)."""
    kind = question.get("kind", "number")
    groups: list[list[Vote]] = []
    for vote in votes:
        if vote["answer"] is None:
            continue
        group = next((g for g in groups if answers.same(g[0]["answer"], vote["answer"], kind)), None)
        if group is None:
            groups.append([vote])
        else:
            group.append(vote)
    if not groups:
        return _decision(None, "majority", "no answer could be read: all abstained", votes, question)
    best = max(groups, key=len)  # the first of several
    tied = [group for group in groups if len(group) == len(best)]
    why = f"{len(best)} of {len(votes)} say {best[0]['answer']}"
    if len(tied) > 1:
        why += f"; a tie of {len(tied)} answers, {best[0]['agent']} spoke first"
    return _decision(best[0]["answer"], "majority", why, votes, question)


def by_agent(votes: list[Vote], agent: str, question: Discussion) -> Decision:
    """The answer of the agent with the lowest temperature (CIPHER)."""
    marked: list[Vote] = [{**vote, "counts": vote["agent"] == agent} for vote in votes]
    answer = next((vote["answer"] for vote in marked if vote["counts"]), None)
    why = f"{agent} has the lowest temperature" + ("" if answer is not None else ", and its answer could not be read")
    return _decision(answer, "lowest_temperature", why, marked, question)


def average(votes: list[Vote], question: Discussion) -> Decision:
    """No single answer: the score is the share of agents that are right (SDE)."""
    decision = _decision(None, "average", "every agent's answer counts by itself", votes, question)
    if question.get("target") is None:
        return decision
    right = [_right(vote["answer"], question) for vote in votes]
    return {**decision, "score": sum(right) / len(right)}


def _vote(state: Discussion, agent: str) -> Vote:
    message = said(state, agent, state["round"])
    assert message is not None, "only agents that spoke vote"
    answer = answers.read(message.text, state.get("kind", "number"), state.get("choices"))
    return {"agent": agent, "answer": answer, "counts": answer is not None}


def _decision(answer: str | None, rule: str, why: str, votes: list[Vote], question: Discussion) -> Decision:
    score = None if question.get("target") is None else float(_right(answer, question))
    return {"answer": answer, "rule": rule, "why": why, "votes": votes, "score": score}


def _right(answer: str | None, question: Discussion) -> bool:
    return answers.same(answer, question.get("target"), question.get("kind", "number"))
