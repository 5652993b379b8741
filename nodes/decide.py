"""Votes read from messages, the viewpoints that they add up to, and the decision of a discussion by its rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import TYPE_CHECKING, Any

from sottovoce.channels.message import Message, MessageRef, words
from sottovoce.core.any_types import AnyState, JSONValue, Unimported
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, concluded, rounds_of
from sottovoce.prompts import kinds
from sottovoce.prompts.render import without_marks

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore
    from sottovoce.nodes.context import RunContext

NUMBERS = "No One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve".split()


@dataclass(frozen=True)
class Viewpoint:
    """An answer and the votes for it, in the order of the agents."""

    answer: str
    votes: tuple[Vote, ...]
    order: int
    """0-based place of its first vote: the first speaker wins a tie, unless entropies are known."""

    @property
    def agents(self) -> list[str]:
        """The agents that voted for it."""
        return [vote["agent"] for vote in self.votes]

    @property
    def weight(self) -> float:
        """The sum of its votes' weights, 1 for a vote without one; rounded, so that .5 + .3 and .8 tie."""
        return round(fsum(vote.get("weight", 1.0) for vote in self.votes), 9)

    @property
    def entropy(self) -> float | None:
        """The mean entropy of its votes, in nats per token, or None if any is unknown or the rule is `first`."""
        found = [vote["entropy"] for vote in self.votes if "entropy" in vote]
        return fsum(found) / len(found) if len(found) == len(self.votes) else None


def read_vote(message: Message, question: Question) -> Vote:
    """Return the vote in a message."""
    return vote_of(message, kinds.reading(message, question))


def vote_of(message: Message, reading: kinds.Reading) -> Vote:
    """Return the vote of a message's agent from a reading. An abstention does not count."""
    vote: Vote = {"agent": message.agent, "answer": reading.answer, "counts": reading.answer is not None}
    return vote if reading.how is None else {**vote, "read": reading.how}


def boxed(answer: str | None) -> kinds.Reading:
    """Return the reading of an answer in a form's own place: a JSON field, a box, brackets."""
    return kinds.Reading(answer, None if answer is None else "boxed")


def viewpoints(votes: Iterable[Vote], question: Mapping[str, Unimported]) -> list[Viewpoint]:
    """Return the distinct answers, most votes first. Ties are in the order in which agents first gave them."""
    kind, distinct = kinds.kind_of(question), list[Viewpoint]()
    for order, vote in enumerate(votes):
        if (answer := vote["answer"]) is None:
            continue
        at = next((i for i, known in enumerate(distinct) if kinds.same(known.answer, answer, kind)), None)
        if at is None:
            distinct.append(Viewpoint(answer, (vote,), order))
        else:
            distinct[at] = replace(distinct[at], votes=(*distinct[at].votes, vote))
    return sorted(distinct, key=lambda viewpoint: -len(viewpoint.votes))


def leading(
    viewpoints: Sequence[Viewpoint], *, weighed: bool = False, points: Mapping[str, float] | None = None
) -> list[Viewpoint]:
    """Return the viewpoints with the most votes (or weight, or points). Several are a tie, which the first wins.

    They are in agents' order, or from the lowest entropy to the highest if all are known.
    """
    votes = {viewpoint.answer: viewpoint.weight if weighed else len(viewpoint.votes) for viewpoint in viewpoints}
    support = votes if points is None else points
    most = max(support.values(), default=0)
    best = [viewpoint for viewpoint in viewpoints if support[viewpoint.answer] == most]
    known = all(viewpoint.entropy is not None for viewpoint in best)
    return sorted(best, key=lambda viewpoint: (viewpoint.entropy or 0.0 if known else 0.0, viewpoint.order))


def is_tie(votes: Iterable[Vote], question: Mapping[str, Unimported]) -> bool:
    """Return True if several answers have the most votes."""
    return len(leading(viewpoints(votes, question))) > 1


def abstaining(votes: Iterable[Vote]) -> list[str]:
    """Return the agents without a readable answer."""
    return [vote["agent"] for vote in votes if vote["answer"] is None]


def viewpoint_slots(
    builder: PromptBuilder,
    votes: Sequence[Vote],
    references: Mapping[str, MessageRef] | None = None,
    most: int | None = None,
) -> list[tuple[str, list[MessageRef]]]:
    """Return each answer as a line with its number of agents, and the messages of at most `most` agents.

    Abstentions come last, under a line that cannot be mistaken for an answer.
    """
    held: list[tuple[str | None, list[str]]] = [
        (each.answer, each.agents) for each in viewpoints(votes, builder.question)
    ]
    if silent := abstaining(votes):
        held.append((None, silent))
    slots = list[tuple[str, list[MessageRef]]]()
    for answer, agents in held:
        about = {"number": number(len(agents)), "count": len(agents), "answer": answer and without_marks(answer)}
        line = words(builder.prompts.render("shared/viewpoint", **about))
        slots.append((line, [references[name] for name in agents[:most]] if references else []))
    return slots


def took(vote: Mapping[str, JSONValue]) -> str:
    """Return a phrase for the second request that was needed to read a vote, or an empty text if none was."""
    return {"repair": "asked again", "answer": "asked for the answer"}.get(vote.get("asked", ""), "")


def number(count: int) -> str:
    """Return a count as a word up to twelve, above that in digits."""
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


Rule = Callable[["RunContext[AnyState]", AnyState], Decision]
Read = Callable[[Message, Question], Vote]


def vote(run: RunContext[Any], state: Discussion) -> Update:
    """Count the round's votes, for routers and readers of the stream."""
    return {"votes": last_votes(run, state)}


def last_votes(run: RunContext[Any], state: Discussion, read: Read = read_vote) -> list[Vote]:
    """Return the votes in the last message of each agent that spoke in the last round, edits included."""
    return votes_of(run, state, state["round"], read)


def votes_of(run: RunContext[Any], state: Discussion, round: int, read: Read = read_vote) -> list[Vote]:
    """Return one vote for each agent that answered in a round: those that discuss, in order, then all others."""
    spoken = rounds_of(state, run.answers)[round]
    names = [name for name in run.settings.speakers() if name in spoken]
    voters = [spoken[name] for name in dict.fromkeys([*names, *spoken])]
    votes = [voted(message, state, read) for message in voters]
    if getattr(run.settings, "tie", "first") == "first":
        return votes
    for message, vote in zip(voters, votes, strict=True):
        source = concluded(state, message) if vote.get("read") == "asked" else message
        if source is None or (answer := vote["answer"]) is None:
            continue
        if (entropy := entropy_of(source, answer, run.agent(vote["agent"]).store)) is not None:
            vote["entropy"] = entropy
    return votes


def entropy_of(message: Message, answer: str, store: PayloadStore | None) -> float | None:
    """Return the mean entropy, in nats, over the tokens that state an answer: its last mention, or the whole reply.

    None for hosted models, people and rules. Raises a PayloadError if the payload is missing or damaged.
    """
    if message.latent is None:
        return None
    payload = message.latent.load(store)
    if "entropy" not in payload.tensors:
        return None
    mentions = re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", message.text, re.IGNORECASE)
    spans = [each.span() for each in mentions][-1:] or [(0, len(message.text))]
    entropies = payload.tensors["entropy"][payload.tokens(spans)]
    return round(float(entropies.mean()), 4) if len(entropies) else None


def voted(message: Message, state: Discussion, read: Read = read_vote) -> Vote:
    """Return the vote in a message. If it states none, return the vote in its answer turn, if there was one."""
    vote, last = read(message, state), concluded(state, message)
    if vote["answer"] is None and last is not None:
        asked: Vote = {**vote, **read_vote(last, state), "asked": "answer"}
        return {**asked, "read": "asked"} if asked["counts"] else asked
    return {**vote, "asked": "repair"} if message.asked == "repair" else vote


def by_majority(run: RunContext[Any], state: Discussion) -> Decision:
    """Decide by the most frequent answer of the last round."""
    return majority(last_votes(run, state), state)


def by_last(run: RunContext[Any], state: Discussion) -> Decision:
    """Decide by the last agent's answer, the only one in the discussion, under the name of its role."""
    votes = last_votes(run, state)
    vote, agent = votes[-1], votes[-1]["agent"]
    role = run.settings.role_of(agent)
    why = (f"the {role} " if role == agent else f"{agent} ") + (
        "answered" if vote["counts"] else "was asked, and its answer could not be read"
    )
    why += f" ({took(vote)})" if took(vote) else ""
    return {**decided(role, why, [], votes, state, (vote["answer"],)), "by": agent}


def majority(votes: Sequence[Vote], question: Question) -> Decision:
    """Decide by the most frequent answer; `leading` says who wins a tie (Du et al.: the first speaker)."""
    best = leading(viewpoints(votes, question))
    why = f"{len(best[0].votes)} of {len(votes)} say {best[0].answer}" if best else ""
    return decided("majority", why, best, votes, question)


def with_unreadable(decision: Decision, unread: int, of: int, consequence: str) -> Decision:
    """Return a world's decision with the number of unreadable actions; if there are any, the reason names them.

    A game may end well although no action could be read, so its score alone would mislead.
    """
    said = f"; {unread} of {of} {consequence}" if unread else ""
    measures = {**decision.get("measures", {}), "unreadable": unread}
    return {**decision, "why": decision["why"] + said, "measures": measures}


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
        why += f"; a tie of {len(best)} answers, {_wins(best)}" if len(best) > 1 else ""
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


def _wins(tied: Sequence[Viewpoint]) -> str:
    """Return the reason that the first of several tied viewpoints wins."""
    agent, entropies = tied[0].agents[0], [each.entropy for each in tied if each.entropy is not None]
    if len(entropies) < len(tied) or entropies[0] == entropies[1]:
        return f"{agent} spoke first"
    return f"{agent} is the most certain: {entropies[0]:.2f} nats a token, the next {entropies[1]:.2f}"
