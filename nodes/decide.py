"""The votes of a round, and the decision of a discussion by its rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.runnables import RunnableLambda

from sottovoce.channels.message import Message
from sottovoce.nodes.chat import chat_of, is_inside
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.progress import is_decided
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, concluded, rounds_of
from sottovoce.nodes.votes import Viewpoint, leading, read_vote, viewpoints
from sottovoce.prompts import kinds

Rule = Callable[[RunContext[Any], Any], Decision]  # Any: the settings and the state of every scheme
Read = Callable[[Message, Question], Vote]


def decide(contexts: Contexts[Any], rule: Rule) -> RunnableLambda[Discussion, Update]:  # Any: any scheme
    """Return the node that decides by the scheme's rule; an answer that cannot be read is an abstention."""

    def decide(state: Discussion) -> Update:
        decision = rule(contexts.of(state), state)
        is_decided(decision)
        return {"decision": decision, "messages": chat_of(state, decision, with_question=not is_inside())}

    return RunnableLambda(decide, name="decide")


def vote(contexts: Contexts[Any], read: Read = read_vote) -> RunnableLambda[Discussion, Update]:
    """Return the node that counts the round's votes, for routers and readers of the stream."""

    def vote(state: Discussion) -> Update:
        return {"votes": last_votes(contexts.of(state), state, read)}

    return RunnableLambda(vote, name="vote")


def last_votes(run: RunContext[Any], state: Discussion, read: Read = read_vote) -> list[Vote]:
    """Return the votes in the last message of each agent that spoke in the last round, edits included."""
    return votes_of(run, state, state["round"], read)


def votes_of(run: RunContext[Any], state: Discussion, round: int, read: Read = read_vote) -> list[Vote]:
    """Return one vote for each agent that answered in a round: those that discuss, in order, then all others."""
    spoken = rounds_of(state, run.answers)[round]
    names = [name for name in run.settings.speakers() if name in spoken]
    return [voted(spoken[name], state, read) for name in dict.fromkeys([*names, *spoken])]


def voted(message: Message, state: Discussion, read: Read = read_vote) -> Vote:
    """Return the vote in a message; if it cannot be read, that in its answer turn, if there was one."""
    vote, last = read(message, state), concluded(state, message)
    if vote["answer"] is None and last is not None:
        return {**vote, **read_vote(last, state), "asked": "answer"}
    return {**vote, "asked": "repair"} if message.asked == "repair" else vote


def by_majority(run: RunContext[Any], state: Discussion) -> Decision:
    """Decide by the most frequent answer of the last round."""
    return majority(last_votes(run, state), state)


def majority(votes: Sequence[Vote], question: Question) -> Decision:
    """Decide by the most frequent answer; at a tie, by the one that was given first (Du et al.)."""
    best = leading(viewpoints(votes, question))
    why = f"{len(best[0].votes)} of {len(votes)} say {best[0].answer}" if best else ""
    return decided("majority", why, best, votes, question)


def decided(
    rule: str,
    why: str,
    best: Sequence[Viewpoint],
    votes: Sequence[Vote],
    question: Question,
    answer_of: tuple[str | None] | None = None,
) -> Decision:
    """Return the decision for the first of the best viewpoints, or for `answer_of`, the answer of another agent."""
    if answer_of is not None:
        answer = answer_of[0]
    elif best:
        answer = best[0].answer
        why += f"; a tie of {len(best)} answers, {best[0].agents[0]} spoke first" if len(best) > 1 else ""
    else:
        answer, why = None, "no answer could be read: all abstained"
    decision: Decision = {
        "answer": answer,
        "rule": rule,
        "why": why,
        "votes": list(votes),
        "score": None if question.get("target") is None else float(kinds.right(answer, question)),
    }
    return {**decision, "tied": [viewpoint.answer for viewpoint in best]} if len(best) > 1 else decision
