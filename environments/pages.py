"""What can be searched: pages of sentences, found by name."""

from __future__ import annotations

from typing import NamedTuple, Protocol

SHOWN = 5
"""Sentences of a page that a search shows; the others must be looked up."""


class Page(NamedTuple):
    """What a search opens."""

    title: str
    sentences: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Titles that the name may mean, where it is ambiguous: then nothing is opened."""


class Library(Protocol):
    """Where an agent looks things up."""

    def page(self, name: str) -> Page | None:
        """The page of that name; None where there is none."""

    def similar(self, name: str, n: int) -> list[str]:
        """Up to n titles like a name, the nearest first."""
