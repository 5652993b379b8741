"""Debates to learn from: what was said in each round, imagined or real, and how one of the agents saw it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.evaluation.arithmetic import Expression
from sottovoce.prompts.render import Prompts
from sottovoce.training import product
from sottovoce.training.chats import Chat
from sottovoce.training.problems import Problem
from sottovoce.training.product import Order, Place, View, documents_of

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

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Talk:  # Any: JSON as it comes
        """Read what `dataclasses.asdict` wrote, also after a trip through JSON."""
        given = data["problem"]
        operands, operators = (tuple(part) for part in given["expression"].values())
        return cls(Problem(**{**given, "expression": Expression(operands, operators)}), data["said"], data["agents"])


def names(n: int) -> list[str]:
    """The names of a debate's agents."""
    return [f"agent_{i + 1}" for i in range(n)]


# What was said


def imagined(rng: random.Random, problem: Problem, agents: Sequence[str], rounds: int, slips: float) -> Talk:
    """A debate as it might run: in each round, each agent says what is right or slips."""
    said: list[dict[str, str]] = []
    for r in range(rounds):
        before, spoken = [text for earlier in said for text in earlier.values()], {}
        for agent in agents:
            known = problem.known([*documents_of(problem.question, agent), *before])
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


# How it was seen


def next_of(problem: Problem, me: str | None, heard: Iterable[tuple[str, str]]) -> tuple[str, frozenset[int]]:
    """What `me` should say after the statements (agent, text), and which of its own were right when it made them."""
    context, own, right = documents_of(problem.question, me), 0, set[int]()
    for agent, text in heard:
        if agent == me:
            right |= {own} if text == problem.reply(problem.known(context)) else set()
            own += 1
        context = [*context, text]
    return problem.reply(problem.known(context)), frozenset(right)


def alone(problem: Problem, me: str | None, prompts: Prompts) -> Chat:
    """The question, answered by one agent, or by one that holds everybody's documents."""
    return in_history(Talk(problem, [], []), me, prompts)


def in_history(talk: Talk, me: str | None, prompts: Prompts, order: Order | None = None) -> Chat:
    """The whole chat of one agent; its earlier answers are lessons too where they are right."""
    turns = product.history(View(prompts, talk.problem.question, me), me, talk.said, order)
    own_first = [
        (name, text) for spoken in talk.said for name, text in sorted(spoken.items(), key=lambda x: x[0] != me)
    ]
    return Chat(Place(turns), *next_of(talk.problem, me, own_first))


def in_summaries(talk: Talk, me: str, prompts: Prompts) -> Chat:
    """As in_history, where each round's answers of the others reach the agent as one summary."""
    texts = [summary(talk.problem, me, spoken) for spoken in talk.said]
    turns = product.history_of_summaries(View(prompts, talk.problem.question, me), me, talk.said, texts)
    rounds = zip(talk.said, texts, strict=True)
    heard = [each for spoken, text in rounds for each in ((me, spoken[me]), ("summary", text))]
    return Chat(Place(turns), *next_of(talk.problem, me, heard))


def fresh(talk: Talk, me: str, prompts: Prompts, order: Order | None = None) -> Chat:
    """One prompt with what was said in the last round."""
    turns = product.fresh(View(prompts, talk.problem.question, me), me, talk.said[-1], order)
    right, _ = next_of(talk.problem, me, talk.said[-1].items())
    return Chat(Place(turns), right)


def summed_up(talk: Talk, me: str, prompts: Prompts) -> Chat:
    """The others' answers of the last round, to be summed up."""
    turns = product.summarise(View(prompts, talk.problem.question, me), me, talk.said[-1])
    return Chat(Place(turns), summary(talk.problem, me, talk.said[-1]))


def summary(problem: Problem, me: str, spoken: dict[str, str]) -> str:
    """What the others' answers come to: the values they tell while nobody can answer, else their answers."""
    texts = [text for name, text in spoken.items() if name != me]
    values = [problem.read(text) for text in texts]
    told = [name for name in problem.known(texts) if name.isalpha()]
    if told and not any(values):
        return "; ".join(f"{name} = {problem.facts[name]}" for name in told) + "."
    words = [value or "unknown" for value in values]
    if len(words) == 1:
        return f"The agent answers {words[0]}."
    return f"The agents answer {', '.join(words[:-1])} and {words[-1]}."


def seen(rng: random.Random, talk: Talk, me: str, prompts: Prompts) -> Chat:
    """The debate as `me` saw it, in one of the shapes that prompts have."""
    order: Order | None = rng.choice(("others_first", "own_first"))
    if rng.random() < FRESH and len(talk.said[-1]) > 1:
        return fresh(talk, me, prompts, rng.choice((None, order)))
    return in_history(talk, me, prompts, order if rng.random() < REORDERED else None)
