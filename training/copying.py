"""Repeating and looking up: what a small model must do first, or it never learns to read messages."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from sottovoce.channels.message import Message, Turn
from sottovoce.evaluation.arithmetic import MIXED, draw, solution
from sottovoce.training.chats import Chat, closing

ALPHABET = [*string.digits * 3, *string.ascii_lowercase, " + ", " - ", " * ", " = ", "; ", ". ", "\n"]


def repeat(rng: random.Random) -> Chat:
    """Random characters, to be said again."""
    text = "".join(rng.choices(ALPHABET, k=rng.randint(4, 50))).strip() or "7"
    return _chat(text, text)


def look_up(rng: random.Random) -> Chat:
    """Values scattered over several lines, and some of them asked for in another order."""
    values = {name: rng.randint(1, 99) for name in rng.sample(string.ascii_lowercase, rng.randint(2, 10))}
    lines = _lines(rng, list(values.items())) + [_noise(rng) for _ in range(rng.choice((0, 0, 1, 3)))]
    rng.shuffle(lines)
    asked = rng.sample(list(values), rng.randint(1, len(values)))
    return _chat("\n".join([*lines, ", ".join(asked)]), "; ".join(f"{name} = {values[name]}" for name in asked) + ".")


def _lines(rng: random.Random, facts: list[tuple[str, int]]) -> list[str]:
    lines = []
    while facts:
        size = rng.choice((1, 1, 2, 3))
        taken, facts = facts[:size], facts[size:]
        lead = "You know: " if size == 1 and rng.random() < 0.5 else ""
        lines.append(lead + "; ".join(f"{name} = {value}" for name, value in taken) + ".")
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
    message = Message("agent_1", 0, "answer", said)
    return Chat(closing([Turn("user", (asked,))], message), frozenset({message.key}))
