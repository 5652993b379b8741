"""The order of a pool's evidence in prompts: by fused ranks, with near duplicates folded and numbers fixed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sottovoce.retrievers.fusion import share
from sottovoce.retrievers.pool import Evidence, Origin

GRAM = 4
"""Number of consecutive words that are compared."""
CONTAINED = 0.8
"""Share of a text's grams that a longer text must contain for the text to be folded into it."""


@dataclass(frozen=True)
class Listed:
    """A listed piece of evidence."""

    key: str
    also: tuple[str, ...] = ()
    """Keys of the pieces that were folded into this one."""
    score: float = 0.0
    """Sum of its shares in all rankings."""

    @property
    def covers(self) -> frozenset[str]:
        """All keys that it represents."""
        return frozenset((self.key, *self.also))


def fused(pool: Mapping[str, Evidence]) -> list[Listed]:
    """Fold near duplicates, and join the rankings of all sources and queries by reciprocal ranks."""
    folds = folded(pool)
    origins = {key: [each for one in (key, *also) for each in pool[one]["origins"]] for key, also in folds.items()}
    found = [Listed(key, also, _score(origins[key])) for key, also in folds.items()]
    return sorted(found, key=lambda each: (-each.score, _first(origins[each.key]), each.key))


def folded(pool: Mapping[str, Evidence]) -> dict[str, tuple[str, ...]]:
    """Return the remaining pieces, each with those folded into it: short ones into the longest that contains them."""
    words = {key: _words(evidence["text"]) for key, evidence in pool.items()}
    kept: dict[str, list[str]] = {}
    for key in sorted(words, key=lambda key: (-len(words[key]), key)):
        into = next((longer for longer in kept if contained(words[key], words[longer])), None)
        kept.setdefault(into or key, []).extend([key] if into else [])
    return {key: tuple(also) for key, also in kept.items()}


def numbered(listed: Iterable[Listed], before: Sequence[str] = ()) -> list[str]:
    """Return keys in the order of their numbers: those in `before` keep their numbers, and new ones follow."""
    numbers = list(before)
    numbers += [each.key for each in listed if not each.covers & set(before)]
    return numbers


def contained(short: Sequence[str], long: Sequence[str]) -> bool:
    """Return whether a text that is not shorter contains nearly all grams of another; never true of single words."""
    if (size := min(GRAM, len(short))) < 2:
        return False
    grams, within = _grams(short, size), _grams(long, size)
    return len(grams & within) >= CONTAINED * len(grams)


def _score(origins: Sequence[Origin]) -> float:
    """Return the sum of shares over rankings: in each (one query to one source) the best rank counts."""
    ranks: dict[tuple[str, str], int] = {}
    for each in origins:
        ranking = (each["source"], each["query"])
        ranks[ranking] = min(each["rank"], ranks.get(ranking, each["rank"]))
    return sum(share(rank) for rank in sorted(ranks.values()))  # sorted: float sums depend on their order


def _first(origins: Sequence[Origin]) -> tuple[int, str, str]:
    """Return the best place, which orders equal scores."""
    return min((each["rank"], each["source"], each["docid"]) for each in origins)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())  # without punctuation: a snippet ends in dots


def _grams(words: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}
