"""A searchable index of the encyclopedia: BM25 over its articles."""

from __future__ import annotations

from functools import lru_cache

from sottovoce.core.errors import UsageError
from sottovoce.environments.encyclopedia.library import encyclopedia
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.passage import Passage

SOURCE = "encyclopedia"


def open_encyclopedia(where: str = "") -> BM25Index:
    """Return an index of the encyclopedia of a seed (default 0), built within a second and cached in memory.

    Raises:
        UsageError: `where` is not a seed.
    """
    if where and not where.isdecimal():
        raise UsageError(f"encyclopedia {where!r}: expected a seed, e.g. encyclopedia:3, or none")
    return _index(int(where or 0))


@lru_cache(4)  # a client may name any seed
def _index(seed: int) -> BM25Index:
    articles = encyclopedia(seed).articles
    return BM25Index.build((Passage(each.title, each.text, each.title) for each in articles), source=SOURCE)
