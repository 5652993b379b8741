"""Parsing of how many tons an agent wants to catch, and allocation of fish when agents want more than there is.

The prompt asks for the wish in the form "Answer: 10 tons", after any reasoning.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from sottovoce.environments.govsim.fishery import Allocation

MARKED = re.compile(
    r"\banswer\b[\s*_`\"']{0,8}(?:is\b[\s*_]{0,8})?"
    r"(?:[:=](?:[^\d\n]{0,40}?|\W{0,10})|(?<=is )\W{0,5})"
    r"(?P<minus>[-\u2212])?(?P<tons>\d{1,3}(?:,\d{3})+(?!\d)|\d+)",
    re.IGNORECASE | re.ASCII,
)
AT_LINE = re.compile(r"(?:^|\n)[\s>*_#`-]{0,8}(?:final\s)?\Z", re.IGNORECASE)
"""End of a text after which a marker starts its line."""
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
SPELLED = re.compile(rf"\banswer\W{{1,8}}({'|'.join(sorted(WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
BEFORE = 24  # characters checked before a marker
DIGITS = 9
"""Most digits of a number, enough for any lake; longer ones are cut, since Python limits the digits it parses."""


def read_tons(text: str) -> int | None:
    r"""Return the first whole number after the last marker, in tons; None if there is none.

    A marker at the start of its line takes precedence. Emphasis, units, "about" and thousands separators are ignored.
    "10.5" and "10-12" give 10, and a negative number gives 0. A marker without a number, as in a repeated
    "Answer: N tons", is skipped.

    >>> read_tons("Half would be left.\n**Answer:** 10 tons"), read_tons("I would catch ten.")
    (10, None)
    """
    found = last_marked(MARKED, text)
    if found is None:
        return _in_words(text)
    return 0 if found["minus"] else int(found["tons"].replace(",", "")[:DIGITS])


def _in_words(text: str) -> int | None:
    """Return the tons of "Answer: five tons"; None if there is no such text."""
    found = SPELLED.findall(text)
    return WORDS.index(found[-1].lower()) if found else None


def last_marked(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match; matches at the start of a line take precedence."""
    return max(pattern.finditer(text), key=place, default=None)


def place(marker: re.Match[str]) -> tuple[bool, int]:
    """Return a sort key: whether a marker starts its line, and its position."""
    start = marker.start()
    return AT_LINE.search(marker.string, max(0, start - BEFORE), start) is not None, start


def allocate(pool: int, wanted: Mapping[str, int], how: Allocation, rng: random.Random) -> dict[str, int]:
    """Return the tons that each agent gets: its wish, unless the wishes exceed the pool, which is then shared out.

    No agent gets more than it wants. `stochastic` gives ton by ton to a random agent that still wants one;
    `proportional` gives shares in proportion to the wishes, rounded randomly so that they are exact on average.
    """
    if sum(wanted.values()) <= pool:
        return dict(wanted)
    return _one_by_one(pool, wanted, rng) if how == "stochastic" else _in_proportion(pool, wanted, rng)


def _one_by_one(pool: int, wanted: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    caught = dict.fromkeys(wanted, 0)
    for _ in range(pool):
        still = [agent for agent in wanted if caught[agent] < wanted[agent]]
        caught[rng.choice(still)] += 1
    return caught


def _in_proportion(pool: int, wanted: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """Round systematically: shares lie end to end on a line, and each gets the marks of a grid with a random offset."""
    total = sum(wanted.values())
    offset, so_far, caught = rng.randrange(total), 0, dict[str, int]()
    for agent, wish in wanted.items():
        before = (pool * so_far + offset) // total
        so_far += wish
        caught[agent] = (pool * so_far + offset) // total - before
    return caught
