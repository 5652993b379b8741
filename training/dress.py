"""The components that a prompt may have besides its question: description, demonstration, system prompt and so on."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sottovoce.nodes.settings import COMPONENTS
from sottovoce.nodes.state import Question
from sottovoce.nodes.views import View
from sottovoce.prompts.render import Prompts
from sottovoce.training import problems
from sottovoce.training.forms import Posed, pose

DESCRIPTIONS = (
    "These are questions about sums and products.",
    "Work out an expression. Products come before sums.",
    "Each question has one right answer.",
    "Letters stand for whole numbers.",
    "The task: arithmetic in several steps.",
)
SYSTEMS = (
    "You are a careful mathematician.",
    "You are a helpful assistant.",
    "Answer briefly.",
    "You check each step twice.",
    "You are agent 2 of a team.",
)
TINY = 20
"""Largest result that is told without steps."""


@dataclass(frozen=True)
class Dressed:
    """A problem with its components, and how an agent sees it."""

    problem: Posed
    view: View

    def right(self, known: list[str]) -> str:
        """What is right to say: the answer alone where no steps are asked for."""
        return self.problem.reply(known) if self.view.steps else self.problem.ending(known)


def dress(
    rng: random.Random, problem: Posed, me: str | None, prompts: Prompts, share: float = 0.03, name: str = "agent_1"
) -> Dressed:
    """The problem as `me` (None: who holds all documents) sees it, each component in `share` of the chats."""
    question: Question = {**problem.question}
    if rng.random() < share:
        question["description"] = rng.choice(DESCRIPTIONS)
    if rng.random() < share:
        question["demonstrations"] = [_demonstration(rng, problem)]
    if rng.random() < share:
        question["starting_views"] = {me or name: _view(rng, problem)}
    off = {"answer_description"} if rng.random() < share else set[str]()
    problem = replace(problem, question=question)
    system = rng.choice(SYSTEMS) if rng.random() < share else ""
    return Dressed(problem, View(prompts, question, me, system, me or name, frozenset(COMPONENTS) - off))


def without_steps(rng: random.Random, prompts: Prompts) -> Dressed:
    """A very small sum or difference whose answer is told at once."""
    while True:
        plain = problems.plain(rng, (9, 12))
        if plain.expression.operators in (("+",), ("-",)) and 0 <= plain.expression.value <= TINY:
            break
    dressed = dress(rng, pose(rng, plain, "number"), "agent_1", prompts, 0.1)
    return replace(dressed, view=replace(dressed.view, components=dressed.view.components - {"chain_of_thought"}))


def _demonstration(rng: random.Random, problem: Posed) -> str:
    other = pose(rng, problems.plain(rng), problem.form)
    choices = other.question.get("choices", [])
    lines = [other.question["question"], *(f"({'ABCDE'[i]}) {choice}" for i, choice in enumerate(choices))]
    return "\n".join([*lines, other.reply([])])


def _view(rng: random.Random, problem: Posed) -> str:
    slip = problem.slip(rng) if rng.random() < 0.5 else (0, 0)
    return problem.ending(list(problem.facts), slip)
