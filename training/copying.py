"""Repeating and looking up: what a small model must do first, or it never learns to read messages."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from sottovoce.evaluation.arithmetic import MIXED, draw, listed, solution
from sottovoce.training.chats import Chat
from sottovoce.training.product import Place, Turn
from sottovoce.training.sources import Source

ALPHABET = [*string.digits * 3, *string.ascii_lowercase, " + ", " - ", " * ", " = ", "; ", ". ", "\n"]


def repeat(rng: random.Random, source: Source) -> Chat:
    """Random characters, to be said again."""
    text = "".join(rng.choices(ALPHABET, k=rng.randint(4, 50))).strip() or "7"
    return _chat(text, text)


def look_up(rng: random.Random, source: Source) -> Chat:
    """Values scattered over several lines, and some of them asked for in another order."""
    values = {name: rng.randint(1, 99) for name in rng.sample(string.ascii_lowercase, rng.randint(2, 10))}
    lines = _lines(rng, values) + [_noise(rng) for _ in range(rng.choice((0, 0, 1, 3)))]
    rng.shuffle(lines)
    asked = rng.sample(list(values), rng.randint(1, len(values)))
    return _chat("\n".join([*lines, ", ".join(asked)]), listed({name: values[name] for name in asked}) + ".")


def _lines(rng: random.Random, values: dict[str, int]) -> list[str]:
    lines, left = list[str](), list(values.items())
    while left:
        size = rng.choice((1, 1, 2, 3))
        taken, left = left[:size], left[size:]
        lead = "You know: " if size == 1 and rng.random() < 0.5 else ""
        lines.append(f"{lead}{listed(dict(taken))}.")
    return lines


def _noise(rng: random.Random) -> str:
    unknown = ", ".join(rng.sample(string.ascii_lowercase, rng.randint(1, 3)))
    makers: list[Callable[[], str]] = [
        lambda: f"I do not know {unknown}. The answer is unknown.",
        lambda: solution(draw(rng, MIXED, split="train").steps()),
        lambda: "".join(rng.choices(string.digits, k=rng.randint(2, 12))),
    ]
    return rng.choice(makers)()


def _chat(asked: str, said: str) -> Chat:
    return Chat(Place([Turn("user", (asked,))]), said)
