"""Arithmetic questions, and questions with their numbers split between agents, generated from a seed.

One sample: "What is 14 + 3 * 5 - 7?", target "22", solution
"3 * 5 = 15; 14 + 15 = 29; 29 - 7 = 22. The answer is 22."

A hash of the expression decides whether it is held out. The bundled model was trained on the
other expressions only, so held-out questions are new to it (their single steps are not).
"""

from __future__ import annotations

import hashlib
import random
import string
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from typing import TypeVar

from sottovoce.nodes.question import Question

Generated = TypeVar("Generated")
Shape = tuple[str, ...]
"""The operators of an expression, from left to right."""
Step = tuple[int, str, int, int]
"""left, operator, right, result"""

MIXED: tuple[Shape, ...] = (("+", "*", "-"), ("-", "*", "+"), ("*", "+"), ("*", "-"), ("+", "-"), ("-", "+"))
SPLIT: tuple[Shape, ...] = (("+",), ("-",), ("+", "-"), ("+", "+"), ("-", "+"), ("+", "*"), ("*", "+"), ("*", "-"))
CHAINS: dict[str, int] = {f"chain{operations}": operations for operations in range(2, 7)}
"""Difficulties by name: the number of operations in an expression."""
TOP = 700
"""Largest number in held-out questions; the bundled model gets about three in four of them right."""


@dataclass(frozen=True)
class Expression:
    """Integers joined by + - *, without brackets."""

    operands: tuple[int, ...]
    operators: Shape

    def text(self, names: Sequence[object] = ()) -> str:
        """Return the expression with spaces, with `names` in place of its numbers if given."""
        first, *rest = names or self.operands
        return str(first) + "".join(f" {op} {name}" for op, name in zip(self.operators, rest, strict=True))

    def steps(self) -> list[Step]:
        """Return the steps of the computation in order, products first."""
        numbers, operators = list(self.operands), list(self.operators)
        steps: list[Step] = []
        while operators:
            at = operators.index("*") if "*" in operators else 0
            left, op, right = numbers[at], operators.pop(at), numbers.pop(at + 1)
            numbers[at] = {"+": left + right, "-": left - right, "*": left * right}[op]
            steps.append((left, op, right, numbers[at]))
        return steps

    @property
    def held_out(self) -> bool:
        """Return whether the hash of the expression kept it out of the bundled model's training (one in ten)."""
        digest = hashlib.sha256(self.text().replace(" ", "").encode()).digest()
        return int.from_bytes(digest[:4], "big") % 10 == 0


def solution(steps: Sequence[Step]) -> str:
    """Return the steps and the answer as text: "3 * 5 = 15; 14 + 15 = 29. The answer is 29."."""
    working = "; ".join(f"{left} {op} {right} = {result}" for left, op, right, result in steps)
    return f"{working}. The answer is {steps[-1][3]}."


def draw(rng: random.Random, shapes: Sequence[Shape] = MIXED, top: int = 99) -> Expression:
    """Draw a held-out expression with numbers up to `top`; each product gets a one-digit factor."""
    while True:
        operators = rng.choice(shapes)
        numbers = [rng.randint(1, top) for _ in range(len(operators) + 1)]
        for at, op in enumerate(operators):
            if op == "*":
                numbers[at + rng.randint(0, 1)] = rng.randint(2, 9)
        expression = Expression(tuple(numbers), operators)
        if expression.held_out:
            return expression


MADE: dict[str, Callable[[random.Random], Expression]] = {
    "arithmetic": partial(draw, top=TOP),
    # six different two-digit numbers, as the CIPHER paper says (arXiv 2310.06272)
    "arithmetic_cipher": lambda rng: Expression(tuple(rng.sample(range(10, 100), 6)), tuple(rng.choices("+-*", k=5))),
    # a+b*c+d-e*f with numbers from 0 to 29, as in the files of CIPHER's experiments
    "arithmetic_files": lambda rng: Expression(tuple(rng.randrange(30) for _ in range(6)), ("+", "*", "+", "-", "*")),
    # held-out expressions over numbers up to 99
    **{name: partial(draw, shapes=[*product("+-*", repeat=operations)]) for name, operations in CHAINS.items()},
}
"""Generators of arithmetic, by the name of the sample."""


def made_arithmetic(name: str, n: int, seed: int) -> list[Question]:
    """Return `n` different questions of one of `MADE`; equal arguments give equal questions."""
    rng = random.Random(f"{'questions' if name == 'arithmetic' else name}/{seed}")
    return [
        Question(id=f"{name}/{seed}/{i}", question=f"What is {expression.text()}?", **_answer(expression))
        for i, expression in enumerate(islice(unlike(rng, MADE[name], Expression.text), n))
    ]


def split_knowledge(n: int, agents: Sequence[str] = ("agent_1", "agent_2"), seed: int = 0) -> list[Question]:
    """Return questions over letters whose values are dealt to `agents`, so that only all together know them.

    The solution uses all values. They are dealt at random, as evenly as possible; if there are more agents than
    letters, some agents know nothing.
    """
    made, make = [], partial(draw, shapes=SPLIT, top=20)
    for i, expression in enumerate(islice(unlike(random.Random(f"questions/{seed}"), make, Expression.text), n)):
        rng = random.Random(f"split/{seed}/{i}")
        names = rng.sample(string.ascii_lowercase, len(expression.operands))
        values = dict(zip(names, expression.operands, strict=True))
        holders = [agents[at % len(agents)] for at in range(len(names))]
        if len(names) < len(agents):
            holders = rng.sample(list(agents), len(names))
        rng.shuffle(holders)
        own = [*zip(names, holders, strict=True)]
        documents = {agent: [f"{name} = {values[name]}." for name, by in own if by == agent] for agent in agents}
        answer = _answer(expression)
        known = "; ".join(f"{name} = {value}" for name, value in values.items())
        answer["solution"] = f"{known}; {answer['solution']}"
        question = f"What is {expression.text(names)}?"
        made.append(Question(id=f"split/{seed}/{i}", question=question, documents=documents, **answer))
    return made


def unlike(
    rng: random.Random, make: Callable[[random.Random], Generated], key: Callable[[Generated], Hashable]
) -> Iterator[Generated]:
    """Yield the values of `make` without end, each `key` only once."""
    seen = set[Hashable]()
    while True:
        generated = make(rng)
        if key(generated) not in seen:
            seen.add(key(generated))
            yield generated


def _answer(expression: Expression) -> Question:
    steps = expression.steps()
    return Question(kind="number", target=str(steps[-1][3]), solution=solution(steps))  # type: ignore[typeddict-item]
