"""The encyclopedia as pages to read and lines to index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache

from sottovoce.environments.encyclopedia.articles import Article
from sottovoce.environments.encyclopedia.generate import made
from sottovoce.environments.encyclopedia.written import written
from sottovoce.environments.pages import Page, Pages


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
    fixed = written()
    names = [name for article in fixed for name in (article.title, *article.aliases)]
    return Encyclopedia([*fixed, *made(seed, names)])
