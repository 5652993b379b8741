"""The encyclopedia as something that can be read: articles by title, other name, or nearest title."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache

from sottovoce.environments.encyclopedia.articles import Article
from sottovoce.environments.encyclopedia.made import made
from sottovoce.environments.encyclopedia.written import written
from sottovoce.environments.pages import Page


class Encyclopedia:
    """Articles, found by title."""

    def __init__(self, articles: list[Article]) -> None:
        self.articles = articles
        self.by_title = {article.title: article for article in articles}
        self._found = {key(name): article for article in articles for name in (*article.aliases,)}
        self._found |= {key(article.title): article for article in articles}

    def article(self, name: str) -> Article | None:
        """By its title or another name of it, whatever its capitals, accents, quotes and spaces."""
        return self._found.get(key(name))

    def page(self, name: str) -> Page | None:
        """What a search for a name opens."""
        article = self.article(name)
        return article and Page(article.title, article.sentences, article.options)

    def similar(self, name: str, n: int) -> list[str]:
        """The n titles that are nearest to a name: by words that they share, then by spelling."""
        wanted, words = key(name), {*key(name).split()}

        def nearness(title: str) -> tuple[int, float]:
            found = key(title)
            return -len(words & {*found.split()}), -SequenceMatcher(None, wanted, found).ratio()

        return sorted(self.by_title, key=nearness)[:n]

    def lines(self) -> Iterator[str]:
        """The articles as JSON Lines with id, title and text, as indexes are built from."""
        for article in self.articles:
            yield json.dumps({"id": article.title, "title": article.title, "text": article.text}, ensure_ascii=False)


@cache
def encyclopedia(seed: int = 0) -> Encyclopedia:
    """The one of a seed: what was written by hand is the same in all."""
    fixed = written()
    names = [name for article in fixed for name in (article.title, *article.aliases)]
    return Encyclopedia([*fixed, *made(seed, names)])


def key(name: str) -> str:
    """By which names are told apart: small letters and figures, without accents, signs between them as spaces.

    >>> key("  The “Sève-le-Bas”")
    'the seve le bas'
    """
    plain = unicodedata.normalize("NFKD", name.casefold().translate({ord("ø"): "o", ord("ł"): "l"}))
    letters = "".join(" " if not sign.isalnum() else sign for sign in plain if not unicodedata.combining(sign))
    return " ".join(letters.split())
