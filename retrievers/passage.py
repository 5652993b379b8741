"""A passage, a hit, and what finds hits: all that the retrievers share, in plain Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

MOST = 6
"""Passages, where nobody says how many."""


@dataclass(frozen=True)
class Passage:
    """A piece of text that can be looked up."""

    docid: str
    """Its name in the corpus."""
    text: str
    title: str = ""
    url: str | None = None

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
