"""Passages, hits and searchers: the plain Python types that all retrievers share."""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from typing_extensions import TypeIs

DEFAULT_K = 6
"""Default number of passages."""
WIDER = 4
"""Factor by which a search is widened when a filter leaves too few hits."""
WIDEST = 100_000
"""Largest number of hits that are checked against a filter."""
LARGEST = 2**63 - 1
"""Largest integer in metadata: checkpoints cannot store larger ones."""
Value = str | int | float | bool
Metadata = Mapping[str, Value]
Filter = Mapping[str, Value]
"""Values that passages must have in their metadata, or as docid, title or url."""


@dataclass(frozen=True)
class Passage:
    """A piece of text that can be retrieved."""

    docid: str
    """Its name in the corpus."""
    text: str
    title: str = ""
    url: str | None = None
    metadata: Metadata = field(default_factory=dict, hash=False)
    """Further properties by name: a year, a section."""

    def passes(self, filter: Filter) -> bool:
        """Return whether the passage has every value of a filter; 1821, 1821.0 and "1821" are equal."""
        known = {**self.metadata, "docid": self.docid, "title": self.title, "url": self.url}
        return all(name in known and _as_text(known[name]) == _as_text(value) for name, value in filter.items())

    @property
    def contents(self) -> str:
        """The text that is indexed: the title on its own line, then the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class Hit:
    """A passage that was found."""

    passage: Passage
    score: float
    """Higher is better, on the searcher's own scale (BM25 near 10, cosines below 1, 1/position in a web search);
    scores of different searchers are never compared."""


class Searcher(Protocol):
    """An index or a service that finds passages. Several threads may search it at once."""

    @property
    def source(self) -> str:
        """Source to which its passages are attributed, e.g. `wikipedia`."""

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` hits for a query that is not blank, best first; none if nothing matches.

        Raises:
            RetrievalError: the search failed.
        """


def key_of(text: str) -> str:
    """Return 16 hexadecimal digits, equal for texts that differ only in case, character width and spacing."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _as_text(value: object) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def plain(metadata: Mapping[str, object]) -> dict[str, Value]:
    """Return the strings, finite numbers and booleans in metadata, which checkpoints and logs can store."""
    return {str(name): value for name, value in metadata.items() if _is_plain(value)}


def _is_plain(value: object) -> TypeIs[Value]:
    whole = isinstance(value, int) and abs(value) <= LARGEST  # booleans are integers too
    return whole or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


@runtime_checkable
class FilteringSearcher(Protocol):
    """A searcher that applies a filter itself, as vector stores do."""

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return at most `k` hits that pass the filter, the best first."""


def search(searcher: Searcher, query: str, k: int, filter: Filter | None = None) -> list[Hit]:
    """Return the best `k` hits that pass a filter; without filter support, a searcher is asked for more until `k` pass.

    Raises:
        RetrievalError: The search failed.
    """
    if not filter:
        return searcher.search(query, k)
    if isinstance(searcher, FilteringSearcher):
        return searcher.search_filtered(query, k, filter)
    depth = k
    while True:
        depth = min(WIDER * depth, WIDEST)
        hits = searcher.search(query, depth)
        passing = [hit for hit in hits if hit.passage.passes(filter)]
        if len(passing) >= k or len(hits) < depth or depth == WIDEST:
            return passing[:k]


class Filtered:
    """A `Searcher` that returns another one's hits that pass a filter, in addition to any filter of a query."""

    def __init__(self, searcher: Searcher, filter: Filter) -> None:
        """Take a searcher, and a filter that applies to every search."""
        self.source, self._searcher, self._filter = searcher.source, searcher, filter

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` hits that pass the filter."""
        return self.search_filtered(query, k, {})

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the best `k` hits that pass both filters."""
        hits = search(self._searcher, query, k, {**filter, **self._filter})
        return [hit for hit in hits if hit.passage.passes(filter)]
