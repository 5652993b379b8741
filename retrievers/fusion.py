"""Reciprocal rank fusion (Cormack et al. 2009): rankings are joined without comparing scores of searchers."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sottovoce.core.errors import UsageError
from sottovoce.retrievers.passage import Hit, Passage, Searcher, key_of

CONSTANT = 60
"""Cormack's k: the larger it is, the smaller the advantage of the first places."""
DEEPER = 3
"""Factor by which each searcher is asked for more hits than requested."""


def share(rank: int) -> float:
    """Return the share that a rank in one ranking adds to a score; `rank` is 1-based."""
    return 1 / (CONSTANT + rank)


class Hybrid:
    """A `Searcher` that fuses the rankings of several; a passage found by two of them is one hit.

    If one searcher fails, the search fails and names it: the others alone would give a different ranking, and a run
    that mixed both would not show it.
    """

    source = "hybrid"

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        """Take at least two searchers; earlier ones win ties and determine the name of a shared passage."""
        if len(searchers) < 2:
            raise UsageError("hybrid needs at least two retrievers, e.g. hybrid:bm25:indexes/a,dense:indexes/b")
        self._searchers = tuple(searchers)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all searchers; empty if one of them has none."""
        prints = [searcher.fingerprint for searcher in self._searchers]
        return hashlib.sha256("+".join(prints).encode()).hexdigest()[:16] if all(prints) else ""

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the `k` passages with the largest sums of shares."""
        shares: dict[str, float] = defaultdict(float)
        passages: dict[str, Passage] = {}
        for searcher in self._searchers:
            for key, (rank, hit) in _ranked(searcher.search(query, DEEPER * k)).items():
                shares[key] += share(rank)
                passages.setdefault(key, hit.passage)
        best = sorted(shares, key=lambda key: -shares[key])  # stable: ties go to the first found
        return [Hit(passages[key], shares[key]) for key in best[:k]]


def _ranked(hits: Sequence[Hit]) -> dict[str, tuple[int, Hit]]:
    """Return hits with their ranks by key; of hits with equal text, only the first."""
    ranked: dict[str, tuple[int, Hit]] = {}
    for rank, hit in enumerate(hits, 1):
        ranked.setdefault(key_of(hit.passage.contents), (rank, hit))
    return ranked


def open_hybrid(where: str) -> Hybrid:
    """Open the retrievers named in `where`, separated by commas."""
    from sottovoce.retrievers.registry import RETRIEVERS, open_searcher  # late: the registry names this module

    return Hybrid([open_searcher(spec) for spec in specs(where, RETRIEVERS.names())])


def specs(where: str, names: Iterable[str]) -> list[str]:
    """Split at commas that are followed by a retriever's name; other commas belong to a path or to `dpr`.

    >>> specs("dpr:index,encoder,passages, bm25:a,b,google", ["dpr", "bm25", "google"])
    ['dpr:index,encoder,passages', 'bm25:a,b', 'google']
    """
    alone = "|".join(map(re.escape, names))
    parts = re.split(rf",(?=\s*(?:(?:{alone})\s*(?:,|$)|[\w.]{{2,}}:))", where)
    return [part for spec in parts if (part := spec.strip(" ,"))]
