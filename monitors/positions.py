"""Where in a reply its author's uncertainty matters. A spot is a position, or several of which the joint is meant.

all           every token: discussions
id            numbers of suspects in an action's JSON: WhoDunit, as the paper says
id_x_action   pairs of a suspect's and an action's number, by the most probable tokens: WhoDunit, as its code does
scores        the numbers of the last `[[a, b]]`: CodeGen
tons          numbers before "ton": GovSim
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from sottovoce.errors import UsageError
from sottovoce.monitors.tokens import Tokens
from sottovoce.registry import Registry

Spot = tuple[int, ...]
Selector = Callable[[Tokens], Sequence[Spot]]

SUSPECTS = re.compile(r"""["']?character["']?\s*:\s*(\[[^\]]*\]|["']?\s*\d+)""", re.IGNORECASE)
SCORES = re.compile(r"\[\[\s*[1-5](?:\s*,\s*[1-5])*\s*\]\]")
NUMBER = re.compile(r"\d+", re.ASCII)
AHEAD = 5  # tokens after a key among which the code looks for its number
BEHIND = 4  # tokens before "ton" that its number may have


def everywhere(tokens: Tokens) -> list[Spot]:
    """Each token."""
    return [(at,) for at in range(len(tokens))]


def suspects(tokens: Tokens) -> list[Spot]:
    """Tokens of the numbers that stand under the key "character", one or a list of them."""
    return [spot for found in SUSPECTS.finditer(tokens.text) for spot in _numbers(tokens, *found.span(1))]


def suspects_and_actions(tokens: Tokens) -> list[Spot]:
    """Each pair of the two kinds' spots; where only one kind was found, its spots alone.

    A spot is the first number among the five tokens after one that says "character" or "action", thoughts too, all by
    the most probable tokens' texts.

    Raises:
        UsageError: those are not known.
    """
    if tokens.best is None:
        told = "positions 'id_x_action' read the most probable tokens' texts, which runs do not keep"
        raise UsageError(f"{told}; choose 'id', or give `of_payload` a decoder in Python")
    ids, actions = (list(dict.fromkeys(_after(tokens.best, key))) for key in ("character", "action"))
    if ids and actions:
        return list(product(ids, actions))
    return [(at,) for at in ids or actions]


def scores(tokens: Tokens) -> list[Spot]:
    """Tokens of the helpfulness scores, 1 to 5, of the last list of them."""
    found = list(SCORES.finditer(tokens.text))
    return _numbers(tokens, *found[-1].span()) if found else []


def tons(tokens: Tokens) -> list[Spot]:
    """Up to four tokens of digits that stand directly before a token that says "ton"."""
    texts, spots = tokens.texts, list[Spot]()
    for at in (at for at, text in enumerate(texts) if "ton" in text.lower()):
        first = at
        while first > max(at - BEHIND, 0) and _is_number(texts[first - 1]):
            first -= 1
        spots += [(digit,) for digit in range(first, at)]
    return spots


def _numbers(tokens: Tokens, start: int, end: int) -> list[Spot]:
    found = (tokens.overlapping(*number.span()) for number in NUMBER.finditer(tokens.text, start, end))
    return [(at,) for at in dict.fromkeys(at for each in found for at in each)]


def _after(texts: Sequence[str], key: str) -> Iterator[int]:
    for at in (at for at, text in enumerate(texts) if key in text.lower()):
        ahead = range(at + 1, min(at + 1 + AHEAD, len(texts)))
        yield from [spot for spot in ahead if _is_number(texts[spot])][:1]


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text.strip()) is not None


OURS = {
    "all": "everywhere",
    "id": "suspects",
    "id_x_action": "suspects_and_actions",
    "scores": "scores",
    "tons": "tons",
}
POSITIONS: Registry[Selector] = Registry(
    "positions", "sottovoce.positions", {name: f"{__name__}:{selector}" for name, selector in OURS.items()}
)
"""Selectors by name."""
