"""A pool as it is shown: by fused ranks, near duplicates folded, numbers frozen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sottovoce.retrievers.fusion import share
from sottovoce.retrievers.pool import Evidence, Origin

GRAM = 4
"""Words in a row that are compared."""
CONTAINED = 0.8
"""The share of a text's grams that stand in a longer one when it is folded into that."""


@dataclass(frozen=True)
class Listed:
    """A piece as it is shown."""

    key: str
    also: tuple[str, ...] = ()
    """Keys of pieces whose words are nearly all in this one."""
    score: float = 0.0
    """The sum of its shares in all rankings."""

    @property
    def covers(self) -> frozenset[str]:
        """All keys that it stands for."""
        return frozenset((self.key, *self.also))


def fused(pool: Mapping[str, Evidence]) -> list[Listed]:
    """Near duplicates folded, and the rankings of all sources and queries joined by reciprocal ranks."""
    folds = folded(pool)
    origins = {key: [each for one in (key, *also) for each in pool[one]["origins"]] for key, also in folds.items()}
    found = [Listed(key, also, _score(origins[key])) for key, also in folds.items()]
    return sorted(found, key=lambda each: (-each.score, _first(origins[each.key]), each.key))


def folded(pool: Mapping[str, Evidence]) -> dict[str, tuple[str, ...]]:
    """The pieces that stay, each with those that were folded into it: short ones into the longest that holds them."""
    words = {key: _words(evidence["text"]) for key, evidence in pool.items()}
    kept: dict[str, list[str]] = {}
    for key in sorted(words, key=lambda key: (-len(words[key]), key)):
        into = next((longer for longer in kept if contained(words[key], words[longer])), None)
        kept.setdefault(into or key, []).extend([key] if into else [])
    return {key: tuple(also) for key, also in kept.items()}


def numbered(listed: Iterable[Listed], before: Sequence[str] = ()) -> list[str]:
    """Keys by their numbers: those of an earlier round keep theirs, and what is new follows in its order."""
    numbers = list(before)
    numbers += [each.key for each in listed if not each.covers & set(before)]
    return numbers


def contained(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether nearly all of a text's grams stand in another one that is no shorter; single words never do."""
    if (size := min(GRAM, len(short))) < 2:
        return False
    grams, within = _grams(short, size), _grams(long, size)
    return len(grams & within) >= CONTAINED * len(grams)


def _score(origins: Sequence[Origin]) -> float:
    """The sum of shares over rankings: in each (one query to one source) the best rank counts."""
    ranks: dict[tuple[str, str], int] = {}
    for each in origins:
        ranking = (each["source"], each["query"])
        ranks[ranking] = min(each["rank"], ranks.get(ranking, each["rank"]))
    return sum(share(rank) for rank in sorted(ranks.values()))  # sorted: float sums depend on their order


def _first(origins: Sequence[Origin]) -> tuple[int, str, str]:
    """The best place, which tells equal scores apart."""
    return min((each["rank"], each["source"], each["docid"]) for each in origins)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())  # without signs: a snippet ends in dots where its passage goes on


def _grams(words: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}
