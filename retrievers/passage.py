"""A passage, a hit, and what finds hits: all that the retrievers share, in plain Python."""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from typing_extensions import TypeIs

MOST = 6
"""Default number of passages."""
WIDER = 4
"""Factor by which a search is widened when a filter leaves too few hits."""
WIDEST = 100_000
"""Largest number of hits that are checked against a filter."""
LARGEST = 2**63 - 1
"""Largest whole number in metadata: checkpoints store no larger one."""
Value = str | int | float | bool
Metadata = Mapping[str, Value]
Filter = Mapping[str, Value]
"""Values that passages must have in their metadata, or as docid, title, url."""


@dataclass(frozen=True)
class Passage:
    """A piece of text that can be looked up."""

    docid: str
    """Its name in the corpus."""
    text: str
    title: str = ""
    url: str | None = None
    metadata: Metadata = field(default_factory=dict, hash=False)
    """Further properties by name: a year, a section."""

    def passes(self, filter: Filter) -> bool:
        """Return whether the passage has every value of a filter; 1821 and "1821" are equal."""
        known = {**self.metadata, "docid": self.docid, "title": self.title, "url": self.url}
        return all(name in known and str(known[name]) == str(value) for name, value in filter.items())

    @property
    def contents(self) -> str:
        """What is indexed: the title in a line of its own, then the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class Hit:
    """A passage that was found."""

    passage: Passage
    score: float
    """The larger the nearer, on a scale of the searcher's own (BM25 near 10, cosines below 1, a web search's
    1/position): never compared between searchers."""


class Searcher(Protocol):
    """What finds passages: an index or a service. It is searched by several threads at once."""

    @property
    def source(self) -> str:
        """What its passages are attributed to, e.g. `wikipedia`."""

    @property
    def fingerprint(self) -> str:
        """Which passages it searches and how: equal where results are equal; empty where that is not known."""

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` hits of a query that is not blank, the best first; none where nothing fits.

        Raises:
            RetrievalError: the search failed.
        """


def key_of(text: str) -> str:
    """Return 16 hexadecimal digits that texts share if they differ in letters' case, width and spacing alone."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def plain(given: Mapping[str, object]) -> dict[str, Value]:
    """Return the texts, finite numbers and truth values among metadata: checkpoints and logs can store those."""
    return {str(name): value for name, value in given.items() if _is_plain(value)}


def _is_plain(value: object) -> TypeIs[Value]:
    whole = isinstance(value, int) and abs(value) <= LARGEST  # truth values are whole numbers too
    return whole or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


@runtime_checkable
class FilteringSearcher(Protocol):
    """A searcher that applies a filter itself, as vector stores do."""

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return at most `k` hits that pass the filter, the best first.

        Raises:
            RetrievalError: the search failed.
        """


def search(searcher: Searcher, query: str, k: int, filter: Filter | None = None) -> list[Hit]:
    """Return the best `k` hits that pass a filter; a searcher that takes no filter is asked for more until `k` pass.

    Raises:
        RetrievalError: The search failed.
    """
    if not filter:
        return searcher.search(query, k)
    if isinstance(searcher, FilteringSearcher):
        return searcher.search_filtered(query, k, filter)
    wanted = k
    while True:
        wanted = min(WIDER * wanted, WIDEST)
        hits = searcher.search(query, wanted)
        passing = [hit for hit in hits if hit.passage.passes(filter)]
        if len(passing) >= k or len(hits) < wanted or wanted == WIDEST:
            return passing[:k]


class Filtered:
    """A `Searcher`: the hits of another one that pass a filter, whatever other filter a query brings."""

    fingerprint = ""

    def __init__(self, searcher: Searcher, filter: Filter) -> None:
        """`filter` applies to every search."""
        self._searcher, self._filter = searcher, filter

    @property
    def source(self) -> str:
        """The other searcher's source."""
        return self._searcher.source

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` hits that pass the filter."""
        return search(self._searcher, query, k, self._filter)

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the best `k` hits that pass both filters."""
        hits = search(self._searcher, query, k, {**filter, **self._filter})
        return [hit for hit in hits if hit.passage.passes(filter)]
