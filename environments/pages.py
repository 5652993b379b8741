"""What can be searched: pages of sentences, found by name, or passages that a search brings together."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, Protocol

from sottovoce.environments.sentences import sentences

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


class Pages:
    """Pages by title and other names, whatever their capitals, accents, quotes and spaces."""

    def __init__(self, pages: Iterable[Page], aliases: Mapping[str, str] | None = None) -> None:
        """Of pages with one title the first counts; `aliases` are titles by another name."""
        self._pages: dict[str, Page] = {}
        for page in pages:
            self._pages.setdefault(key(page.title), page)
        self._titles = [page.title for page in self._pages.values()]
        self._aliases = {key(name): key(title) for name, title in (aliases or {}).items()}

    def page(self, name: str) -> Page | None:
        """By its title, else by another name of it."""
        wanted = key(name)
        return self._pages.get(wanted) or self._pages.get(self._aliases.get(wanted, wanted))

    def similar(self, name: str, n: int) -> list[str]:
        """The n titles that are nearest: by words that they share, then by spelling."""
        wanted, words = key(name), {*key(name).split()}

        def nearness(title: str) -> tuple[int, float]:
            found = key(title)
            return -len(words & {*found.split()}), -SequenceMatcher(None, wanted, found).ratio()

        return sorted(self._titles, key=nearness)[:n]


class Found:
    """What a search for passages brings, the best of them as one page (SDE's world): nothing is ever not found."""

    def __init__(self, search: Callable[[str], Sequence[str]]) -> None:
        self._search = search

    def page(self, name: str) -> Page | None:
        """The passages in one; None where the search brings none."""
        passages = self._search(name)
        return Page(name, sentences("\n".join(passages))) if passages else None

    def similar(self, name: str, n: int) -> list[str]:
        """None: a search does not go by titles."""
        return []


def key(name: str) -> str:
    """By which names are told apart: small letters and figures, without accents, signs between them as spaces.

    >>> key("  The “Sève-le-Bas”")
    'the seve le bas'
    """
    plain = unicodedata.normalize("NFKD", name.casefold().translate({ord("ø"): "o", ord("ł"): "l"}))
    letters = "".join(" " if not sign.isalnum() else sign for sign in plain if not unicodedata.combining(sign))
    return " ".join(letters.split())
