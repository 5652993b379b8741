"""Rankings joined by reciprocal ranks (Cormack et al. 2009): scores of different searchers are never compared."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sottovoce.errors import UsageError
from sottovoce.retrievers.passage import Hit, Passage, Searcher, key_of

CONSTANT = 60
"""Cormack's k: the larger, the less a first place counts against a tenth."""
DEEPER = 3
"""How many times as many hits each searcher is asked for as are wanted."""


def share(rank: int) -> float:
    """What a place in one ranking adds; `rank` is 1-based."""
    return 1 / (CONSTANT + rank)


class Hybrid:
    """A `Searcher`: several, joined by rank; a passage that two of them find is one hit.

    Where one of them fails the search fails, and says which: what the others find is another ranking, and a run
    that mixed both would not tell.
    """

    source = "hybrid"

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        """Of equal ranks, and for what a passage is called, the searcher that stands earlier goes first.

        Raises:
            UsageError: fewer than two searchers.
        """
        if len(searchers) < 2:
            raise UsageError(
                "hybrid joins at least two retrievers: name them, e.g. hybrid:bm25:indexes/a,dense:indexes/b"
            )
        self._searchers = tuple(searchers)

    @property
    def fingerprint(self) -> str:
        """Empty where one of the searchers has none."""
        prints = [each.fingerprint for each in self._searchers]
        return hashlib.sha256("+".join(prints).encode()).hexdigest()[:16] if all(prints) else ""

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` passages with the largest sums of shares."""
        shares: dict[str, float] = defaultdict(float)
        passages: dict[str, Passage] = {}
        for searcher in self._searchers:
            for key, (rank, hit) in _ranked(searcher.search(query, DEEPER * k)).items():
                shares[key] += share(rank)
                passages.setdefault(key, hit.passage)
        best = sorted(shares, key=lambda key: -shares[key])  # stable: of equal ones the first found
        return [Hit(passages[key], shares[key]) for key in best[:k]]


def _ranked(hits: Sequence[Hit]) -> dict[str, tuple[int, Hit]]:
    """Hits by key; of several with one text the first counts."""
    found: dict[str, tuple[int, Hit]] = {}
    for rank, hit in enumerate(hits, 1):
        found.setdefault(key_of(hit.passage.contents), (rank, hit))
    return found


def open_hybrid(where: str) -> Hybrid:
    """The retrievers that are named with commas between them.

    Raises:
        UsageError: fewer than two, or one that cannot be opened.
    """
    from sottovoce.retrievers.registry import RETRIEVERS, open_searcher  # late: the registry names this module

    return Hybrid([open_searcher(spec) for spec in specs(where, RETRIEVERS.names())])


def specs(where: str, names: Iterable[str]) -> list[str]:
    """What stands between the commas behind which a retriever begins: other commas are a path's, or `dpr`'s.

    >>> specs("dpr:index,encoder,passages, bm25:a,b,google", ["dpr", "bm25", "google"])
    ['dpr:index,encoder,passages', 'bm25:a,b', 'google']
    """
    alone = "|".join(map(re.escape, names))
    parts = re.split(rf",(?=\s*(?:(?:{alone})\s*(?:,|$)|[\w.]{{2,}}:))", where)
    return [part for each in parts if (part := each.strip(" ,"))]
