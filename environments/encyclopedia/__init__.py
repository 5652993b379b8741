"""An encyclopedia of invented people, places, books and firms, generated from a seed, with questions about it.

It is generated on demand, which takes a few hundredths of a second, so there is no stored copy that could become
outdated. A test compares the digest of seed 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache

from sottovoce.core.errors import UsageError
from sottovoce.environments.encyclopedia.articles import Article, Fact, handwritten
from sottovoce.environments.pages import Page, Pages
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.passage import Passage

__all__ = ["Article", "Encyclopedia", "Fact", "encyclopedia", "open_encyclopedia"]


class Encyclopedia(Pages):
    """The articles of an encyclopedia as pages."""

    def __init__(self, articles: list[Article]) -> None:
        pages = [Page(article.title, article.sentences, article.options) for article in articles]
        super().__init__(pages, {name: article.title for article in articles for name in article.aliases})
        self.articles = articles
        self.by_title = {article.title: article for article in articles}

    def article(self, name: str) -> Article | None:
        """Return the article with a title or alias, as `page` finds it, or None."""
        page = self.page(name)
        return self.by_title[page.title] if page else None

    def lines(self) -> Iterator[str]:
        """Yield the articles as JSON Lines with id, title and text, the format for building indexes."""
        for article in self.articles:
            yield json.dumps({"id": article.title, "title": article.title, "text": article.text}, ensure_ascii=False)


@lru_cache(4)  # a client may name any seed
def encyclopedia(seed: int = 0) -> Encyclopedia:
    """Return the encyclopedia of a seed; the handwritten part is the same for all seeds."""
    from sottovoce.environments.encyclopedia.generate import generate  # late: it reads data files

    fixed = handwritten()
    names = [name for article in fixed for name in (article.title, *article.aliases)]
    return Encyclopedia([*fixed, *generate(seed, names)])


@lru_cache(4)
def open_encyclopedia(where: str = "") -> BM25Index:
    """Return an index of the encyclopedia of a seed (default 0), built within a second and cached in memory.

    Raises:
        UsageError: `where` is not a seed.
    """
    if where and not where.isdecimal():
        raise UsageError(f"encyclopedia {where!r}: expected a seed, e.g. encyclopedia:3, or none")
    articles = encyclopedia(int(where or 0)).articles
    passages = (Passage(article.title, article.text, article.title) for article in articles)
    return BM25Index.build(passages, source="encyclopedia")
