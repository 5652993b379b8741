"""The tons that an agent wants to catch, as it says so, and the shares where agents want more than there is.

The wish stands as the prompt asks for it, "Answer: 10 tons", after any reasoning.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from sottovoce.environments.govsim.games import Allocation

MARKED = re.compile(
    r"\banswer\b[\s*_`\"']{0,8}(?:is\b[\s*_]{0,8})?"
    r"(?:[:=](?:[^\d\n]{0,40}?|\W{0,10})|(?<=is )\W{0,5})"
    r"(?P<minus>[-\u2212])?(?P<tons>\d{1,3}(?:,\d{3})+(?!\d)|\d+)",
    re.IGNORECASE | re.ASCII,
)
AT_LINE = re.compile(r"(?:^|\n)[\s>*_#`-]{0,8}(?:final\s)?\Z", re.IGNORECASE)
"""The end of a text behind which a marker begins its line."""
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
SPELLED = re.compile(rf"\banswer\W{{1,8}}({'|'.join(sorted(WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
BEFORE = 24  # characters before a marker that are looked at
DIGITS = 9
"""More than any lake holds; what is longer is cut, as Python refuses to read numbers of thousands of digits."""


def read_tons(text: str) -> int | None:
    r"""Return the first whole number after the last marker, in tons; None where there is none.

    A marker at the beginning of its line counts before all others. Emphasis, units and "about" around it are read
    over, as are thousands commas; of "10.5" it is 10, of "10-12" it is 10, and a negative number is 0. A marker
    without a number, as in a repeated "Answer: N tons", is passed over.

    >>> read_tons("Half would be left.\n**Answer:** 10 tons"), read_tons("I would catch ten.")
    (10, None)
    """
    found = last_marked(MARKED, text)
    if found is None:
        return _in_words(text)
    return 0 if found["minus"] else int(found["tons"].replace(",", "")[:DIGITS])


def _in_words(text: str) -> int | None:
    """Return the tons of "Answer: five tons"; None where nothing of the sort is there."""
    found = SPELLED.findall(text)
    return WORDS.index(found[-1].lower()) if found else None


def last_marked(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match; those at the beginning of a line count before all others."""
    return max(pattern.finditer(text), key=place, default=None)


def place(marker: re.Match[str]) -> tuple[bool, int]:
    """Return whether a marker begins its line, and where it stands: the greater of two counts."""
    start = marker.start()
    return AT_LINE.search(marker.string, max(0, start - BEFORE), start) is not None, start


def allocate(pool: int, wanted: Mapping[str, int], how: Allocation, rng: random.Random) -> dict[str, int]:
    """Tons that each one gets: what it wants, and where that is too much together, all there is.

    Nobody gets more than it wants. `stochastic` gives one ton after another to somebody who still wants one, each as
    likely; `proportional` gives shares by the wishes, rounded up or down so that they are as wished in the mean.
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
    """Systematic rounding: the shares lie end to end on a line, and each holds the marks of a grid with one offset."""
    total = sum(wanted.values())
    offset, so_far, caught = rng.randrange(total), 0, dict[str, int]()
    for agent, wish in wanted.items():
        before = (pool * so_far + offset) // total
        so_far += wish
        caught[agent] = (pool * so_far + offset) // total - before
    return caught
