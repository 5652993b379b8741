"""Positions in a reply at which uncertainty is measured. A spot is one position, or several measured jointly.

all           every token: discussions
thoughts      every token of the thoughts before a reply, of local models that think
action        pairs of a character's and an action's number in the generated reply: WhoDunit
id            numbers of characters in an action's JSON: WhoDunit, as in the paper
id_x_action   like `action`, in the most probable tokens instead of the generated ones: WhoDunit, as in its code
scores        numbers of the last `[[a, b]]`: CodeGen
tons          numbers before "ton": GovSim

Positions for WhoDunit know both vocabularies of the game: a character may be called a suspect.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate, product

from sottovoce.core.errors import UsageError
from sottovoce.core.registry import Registry
from sottovoce.monitors.tokens import Tokens

Spot = tuple[int, ...]
Selector = Callable[[Tokens], Sequence[Spot]]

PEOPLE = ("character", "suspect")
"""Names of a person in the vocabularies of WhoDunit."""
ACTIONS = ("action",)
IDS = re.compile(rf"""["']?(?:{"|".join(PEOPLE)})["']?\s*:\s*(\[[^\]]*\]|["']?\s*\d+)""", re.IGNORECASE)
SCORES = re.compile(r"\[\[\s*[1-5](?:\s*,\s*[1-5])*\s*\]\]")
NUMBER = re.compile(r"\d+", re.ASCII)
NUMBER_TOKEN = re.compile(r"\W*\d+\W*", re.ASCII)
AHEAD = 5  # tokens after a word that are searched for its number, as in the paper's code
BEHIND = 4  # most tokens of a number before "ton"


def everywhere(tokens: Tokens) -> list[Spot]:
    """Select each token."""
    return [(at,) for at in range(len(tokens))]


def suspects(tokens: Tokens) -> list[Spot]:
    """Select the tokens of the numbers under the key "character" or "suspect", one number or a list."""
    return [spot for match in IDS.finditer(tokens.text) for spot in _numbers(tokens, *match.span(1))]


def actions(tokens: Tokens) -> list[Spot]:
    """Select pairs of a character's and an action's number; if the reply has only one kind, its single numbers.

    The number of a character or an action is the first one in the five tokens after a mention, in thoughts too.
    """
    return _pairs(tokens.texts)


def probable_actions(tokens: Tokens) -> list[Spot]:
    """Select as `actions` does, in the text of the most probable token at each position."""
    if tokens.best is None:
        raise UsageError(
            "positions 'id_x_action' need the texts of the most probable tokens, and the reply has none; "
            "choose 'action', or pass `of_payload` a decoder of token ids"
        )
    return _pairs(tokens.best)


def scores(tokens: Tokens) -> list[Spot]:
    """Select the tokens of the helpfulness scores, 1 to 5, in the last list of scores."""
    matches = list(SCORES.finditer(tokens.text))
    return _numbers(tokens, *matches[-1].span()) if matches else []


def tons(tokens: Tokens) -> list[Spot]:
    """Select up to four tokens of digits directly before each token that contains "ton"."""
    texts, spots = tokens.texts, list[Spot]()
    for at in (at for at, text in enumerate(texts) if "ton" in text.lower()):
        first = at
        while first > max(at - BEHIND, 0) and _is_number(texts[first - 1]):
            first -= 1
        spots += [(digit,) for digit in range(first, at)]
    return spots


def _numbers(tokens: Tokens, start: int, end: int) -> list[Spot]:
    numbers = (tokens.overlapping(*match.span()) for match in NUMBER.finditer(tokens.text, start, end))
    return [(at,) for at in dict.fromkeys(at for number in numbers for at in number)]


def _pairs(texts: Sequence[str]) -> list[Spot]:
    people, acts = _first_numbers(texts, PEOPLE), _first_numbers(texts, ACTIONS)
    return list(product(people, acts)) if people and acts else [(at,) for at in people or acts]


def _first_numbers(texts: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return the first number token after each mention; a word may span several tokens in small vocabularies."""
    ends = list(accumulate(map(len, texts)))
    mentions = re.finditer("|".join(words), "".join(texts), re.IGNORECASE)
    ahead = (range(last + 1, last + 1 + AHEAD) for last in (bisect_left(ends, match.end()) for match in mentions))
    first = ([at for at in places if NUMBER_TOKEN.fullmatch("".join(texts[at : at + 1]))][:1] for places in ahead)
    return list(dict.fromkeys(at for places in first for at in places))


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text.strip()) is not None


OURS = {
    "all": "everywhere",
    "thoughts": "everywhere",
    "action": "actions",
    "id": "suspects",
    "id_x_action": "probable_actions",
    "scores": "scores",
    "tons": "tons",
}
POSITIONS: Registry[Selector] = Registry(
    "positions", "sottovoce.positions", {name: f"{__name__}:{selector}" for name, selector in OURS.items()}
)
"""Selectors by name."""
