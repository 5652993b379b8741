"""Problems with everything that is known about them: what is right to say, and what a slip looks like."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sottovoce.evaluation.arithmetic import (
    MIXED,
    SHORT,
    SPLIT,
    UNKNOWN,
    Expression,
    Shape,
    Split,
    deal,
    draw,
    listed,
    solution,
)
from sottovoce.nodes.state import Question

TOPS = (20, 99, 99, 99, 99, 300)
"""Largest numbers, while the model learns to calculate."""
HARDER = (99, 99, 300, 500, 500)
"""Largest numbers of problems worth a debate: it gets a good part of them wrong."""
ALL: tuple[Shape, ...] = tuple(dict.fromkeys(MIXED + SHORT + SPLIT))


@dataclass(frozen=True)
class Problem:
    """A question about an expression."""

    expression: Expression
    question: Question
    facts: Mapping[str, int] = field(default_factory=dict)
    """What must be told: values of letters, or a product that the model cannot work out."""
    claimed: int | None = None
    """The value that the question asks to confirm."""

    def known(self, texts: Iterable[str]) -> list[str]:
        """The facts that stand in `texts` with their right values, in the question's order."""
        heard = "\n".join(texts)
        return [
            name for name, value in self.facts.items() if re.search(rf"(?<!\w){re.escape(name)} = {value}\b", heard)
        ]

    def reply(self, known: Sequence[str], slip: tuple[int, int] = (0, 0)) -> str:
        """What someone says who knows these facts, with or without a slip in one step."""
        values = {name: self.facts[name] for name in known if name.isalpha()}
        missing = [name for name in self.facts if name not in known]
        if missing:
            told = f"{listed(values)}. " if values else ""
            return f"{told}I do not know {', '.join(missing)}. {UNKNOWN}"
        told = f"{listed(values)}; " if values else ""
        return told + self._solution(slip)

    def _solution(self, slip: tuple[int, int]) -> str:
        text = solution(self.expression.steps(slip))
        if self.claimed is None:
            return text
        working, value = text.removesuffix(".").split(". The answer is ")
        return f"{working}. The answer is {'yes' if int(value) == self.claimed else 'no'}."

    def slip(self, rng: random.Random) -> tuple[int, int]:
        """One wrong step, near the right result as the slips of a small model are."""
        step = rng.randrange(len(self.expression.operators))
        by = rng.choice((1, -1, 2, -2, 10, -10, 9, -9, 20, 100, rng.randint(-60, 60) or 5))
        return step, by


def plain(rng: random.Random, tops: Sequence[int] = TOPS, part: Split = "train") -> Problem:
    """Arithmetic; the largest number is drawn from `tops` and decides how hard it is."""
    shapes = MIXED if rng.random() < 0.6 else ALL
    expression = draw(rng, shapes, top=rng.choice(tops), split=part)
    text = expression.text()
    return Problem(expression, Question(question=f"What is {text if rng.random() < 0.93 else text.replace(' ', '')}?"))


def claim(rng: random.Random) -> Problem:
    """A value to be confirmed or denied."""
    expression = draw(rng, MIXED, split="train")
    value = expression.value + rng.choice((0, rng.choice((1, -1, 2, 10, -10, 9))))
    question = Question(question=f"Is {expression.text()} equal to {value}?", kind="yes_no")
    return Problem(expression, question, claimed=value)


def hard(rng: random.Random) -> Problem:
    """A product of two large numbers, alone or in a sum: its value can only be heard."""
    while True:
        left, right = rng.randint(12, 99), rng.randint(12, 99)
        expression = Expression((left, right), ("*",))
        if rng.random() < 0.5:
            expression = Expression((rng.randint(1, 99), left, right), (rng.choice("+-"), "*"))
        if not expression.held_out:
            question = Question(question=f"What is {expression.text()}?")
            return Problem(expression, question, {f"{left} * {right}": left * right})


def split(rng: random.Random, agents: Sequence[str], part: Split = "train") -> Problem:
    """Letters whose values are dealt to the agents; now and then one is dealt twice or to nobody."""
    expression = draw(rng, SPLIT, top=rng.choice((20, 20, 20, 50)), split=part)
    names = rng.sample(string.ascii_lowercase, len(expression.operands))
    facts = dict(zip(names, expression.operands, strict=True))
    documents = {agent: [f"{name} = {facts[name]}." for name in own] for agent, own in deal(rng, names, agents)}
    told = [agent for agent in agents if documents[agent]]
    if rng.random() < 0.08:
        documents[rng.choice(told)].pop()
    elif rng.random() < 0.1:
        line = documents[told[0]][0]
        documents = {agent: [*lines, line] if line not in lines else lines for agent, lines in documents.items()}
    return Problem(expression, Question(question=f"What is {expression.text(names)}?", documents=documents), facts)
