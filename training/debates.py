"""Debates to learn from: what was said in each round, and how one of the agents saw it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sottovoce.channels.message import Message, Turn
from sottovoce.evaluation.arithmetic import Expression
from sottovoce.nodes.settings import Order
from sottovoce.nodes.state import documents_of
from sottovoce.nodes.views import View
from sottovoce.prompts import kinds
from sottovoce.prompts.render import Prompts
from sottovoce.training.chats import Chat, Key, closing
from sottovoce.training.problems import Problem

FRESH = 0.15
"""Share of chats in the one-prompt-a-round shape."""
REORDERED = 0.15
"""Share of history chats that restate the own answer beside the others'."""


@dataclass(frozen=True)
class Talk:
    """A problem, and what each agent said in each round: `said[round][agent]`."""

    problem: Problem
    said: list[dict[str, str]]
    agents: list[str]

    @property
    def agreed(self) -> bool:
        """Whether everybody said just what is right in the last round, and there was more to say than 'unknown'."""
        right = self.problem.reply(list(self.problem.facts))
        return all(text == right for text in self.said[-1].values())

    def to_dict(self) -> dict[str, Any]:  # Any: plain JSON
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Talk:  # Any: JSON as it comes
        """Read what to_dict wrote."""
        given = data["problem"]
        operands, operators = (tuple(part) for part in given["expression"].values())
        return cls(Problem(**{**given, "expression": Expression(operands, operators)}), data["said"], data["agents"])

    def message(self, r: int, agent: str) -> Message:
        """One of the messages."""
        return Message(agent, r, "revise" if r else "answer", self.said[r][agent])

    def others(self, r: int, me: str) -> list[Message]:
        """What the others said in a round."""
        return [self.message(r, agent) for agent in self.said[r] if agent != me]


def names(n: int) -> list[str]:
    """The names of a debate's agents."""
    return [f"agent_{i + 1}" for i in range(n)]


def alone(problem: Problem, me: str | None, prompts: Prompts) -> Chat:
    """The question, answered by one agent, or by one that holds everybody's documents."""
    return in_history(Talk(problem, [], []), me, prompts)


def in_history(talk: Talk, me: str | None, prompts: Prompts, order: Order | None = None) -> Chat:
    """The whole chat of one agent; its earlier answers are lessons too where they are right."""
    view = View(prompts, talk.problem.question, me)
    own = [talk.message(r, me) for r in range(len(talk.said)) if me is not None]
    others = [talk.others(r, me) for r in range(len(talk.said)) if me is not None]
    return _chat(talk, me, view.history(own, others, order), own, [[m.text for m in heard] for heard in others])


def in_summaries(talk: Talk, me: str, prompts: Prompts) -> Chat:
    """As in_history, where each round's answers of the others reach the agent as one summary."""
    own = [talk.message(r, me) for r in range(len(talk.said))]
    texts = [summary(talk, r, me) for r in range(len(talk.said))]
    summaries = [Message("summary", r, "summarise", text) for r, text in enumerate(texts)]
    turns = View(prompts, talk.problem.question, me).history_of_summaries(own, summaries)
    return _chat(talk, me, turns, own, [[text] for text in texts])


def fresh(talk: Talk, me: str, prompts: Prompts, order: Order | None = None) -> Chat:
    """One prompt with what was said in the last round."""
    r = len(talk.said) - 1
    own, others = talk.message(r, me), talk.others(r, me)
    turns = View(prompts, talk.problem.question, me).fresh(own, others, order)
    return _chat(talk, me, turns, [], [[own.text, *(message.text for message in others)]])


def summed_up(talk: Talk, me: str, prompts: Prompts) -> Chat:
    """The others' answers of the last round, to be summed up."""
    r = len(talk.said) - 1
    turns = View(prompts, talk.problem.question, me).summarise(talk.others(r, me))
    message = Message("summary", r, "summarise", summary(talk, r, me))
    return Chat(closing(turns, message), frozenset({message.key}))


def summary(talk: Talk, r: int, me: str) -> str:
    """What the others' answers come to: the values they tell while nobody can answer, else their answers."""
    texts = [message.text for message in talk.others(r, me)]
    values = [kinds.read(text, "number") for text in texts]
    told = [name for name in talk.problem.known(texts) if name.isalpha()]
    if told and not any(values):
        return "; ".join(f"{name} = {talk.problem.facts[name]}" for name in told) + "."
    words = [value or "unknown" for value in values]
    if len(words) == 1:
        return f"The agent answers {words[0]}."
    return f"The agents answer {', '.join(words[:-1])} and {words[-1]}."


def imagined(rng: random.Random, problem: Problem, agents: Sequence[str], rounds: int, slips: float) -> Talk:
    """A debate as it might run: in each round, each agent says what is right or slips."""
    said: list[dict[str, str]] = []
    for r in range(rounds):
        spoken = {}
        for agent in agents:
            known = problem.known([*documents_of(problem.question, agent), *_all(said)])
            slipped = rng.random() < (slips if r == 0 else slips / 2)
            spoken[agent] = problem.reply(known, problem.slip(rng) if slipped else (0, 0))
        said.append(spoken)
    return Talk(problem, said, list(agents))


def told_by_one(rng: random.Random, problem: Problem, agents: Sequence[str], rounds: int) -> tuple[Talk, str]:
    """A debate in which one agent alone can solve the problem, and an agent that can not."""
    expert, me = rng.sample(list(agents), 2)
    first = {agent: problem.reply(list(problem.facts) if agent == expert else []) for agent in agents}
    later = dict.fromkeys(agents, problem.reply(list(problem.facts)))
    return Talk(problem, [first, later][:rounds], list(agents)), me


def seen(rng: random.Random, talk: Talk, me: str, prompts: Prompts) -> Chat:
    """The debate as `me` saw it, in one of the shapes that prompts have."""
    order: Order | None = rng.choice(("others_first", "own_first"))
    if rng.random() < FRESH and len(talk.said[-1]) > 1:
        return fresh(talk, me, prompts, rng.choice((None, order)))
    return in_history(talk, me, prompts, order if rng.random() < REORDERED else None)


def _chat(
    talk: Talk, me: str | None, turns: Sequence[Turn], own: Sequence[Message], heard: Sequence[Sequence[str]]
) -> Chat:
    """Close the chat with the right reply, and find which of the own earlier ones were right."""
    context = documents_of(talk.problem.question, me)
    lessons: set[Key] = set()
    for message, texts in zip(own, heard, strict=False):
        if message.text == talk.problem.reply(talk.problem.known(context)):
            lessons.add(message.key)
        context = [*context, message.text, *texts]
    if not own:
        context += [text for texts in heard for text in texts]
    rounds = len(talk.said)
    last = Message(me or "agent_1", rounds, "revise", talk.problem.reply(talk.problem.known(context)))
    return Chat(closing(turns, last), frozenset(lessons | {last.key}))


def _all(said: Sequence[dict[str, str]]) -> list[str]:
    return [text for spoken in said for text in spoken.values()]
