"""Collections of pages that ReAct searches: their sentences, found by name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import NamedTuple, Protocol

from sottovoce.core.text import folded

HEADING = re.compile(r"=+.*=+")


def paragraphs(text: str) -> str:
    r"""Return the paragraphs and list items of an article: lines with more than two words that are not headings.

    >>> paragraphs("It has a mill.\n\n== Later years ==\nSee also:\nThe mill burnt.")
    'It has a mill.\nThe mill burnt.'
    """
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if len(line.split()) > 2 and not HEADING.fullmatch(line))


SHOWN = 5
"""Number of sentences that a search shows; the others must be looked up."""


class Page(NamedTuple):
    """A page that a search opens."""

    title: str
    sentences: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Titles that an ambiguous name may refer to; such a page is not opened."""


class Library(Protocol):
    """A collection of pages that agents search."""

    def page(self, name: str) -> Page | None:
        """Return the page with this name, or None."""

    def similar(self, name: str, n: int) -> list[str]:
        """Return up to n titles similar to a name, nearest first."""


class Pages:
    """Pages by title and alias, ignoring case, accents, quotes and spacing."""

    def __init__(self, pages: Iterable[Page], aliases: Mapping[str, str] | None = None) -> None:
        """Index pages, of which the first with a title counts; `aliases` maps other names to titles."""
        self._pages: dict[str, Page] = {}
        for page in pages:
            self._pages.setdefault(key(page.title), page)
        self._titles = [page.title for page in self._pages.values()]
        self._aliases = {key(name): key(title) for name, title in (aliases or {}).items()}

    def page(self, name: str) -> Page | None:
        """Return the page with this title, else with this alias, else None."""
        wanted = key(name)
        return self._pages.get(wanted) or self._pages.get(self._aliases.get(wanted, wanted))

    def similar(self, name: str, n: int) -> list[str]:
        """Return the n nearest titles, by shared words, then by spelling."""
        wanted, words = key(name), {*key(name).split()}

        def nearness(title: str) -> tuple[int, float]:
            other_key = key(title)
            return -len(words & {*other_key.split()}), -SequenceMatcher(None, wanted, other_key).ratio()

        return sorted(self._titles, key=nearness)[:n]


def key(name: str) -> str:
    """Return a name's key for comparison: lowercase letters and digits without accents, other signs as spaces.

    >>> key("  The “Sève-le-Bas”")
    'the seve le bas'
    """
    letters = "".join(sign if sign.isalnum() or unicodedata.combining(sign) else " " for sign in folded(name))
    return " ".join(letters.split())
