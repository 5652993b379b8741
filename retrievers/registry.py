"""The retrievers by name; `RETRIEVERS.register` adds one, and so does an entry point of "sottovoce.retrievers".

What is registered takes what stands behind the colon of `bm25:path/to/index` (empty where nothing
does) and returns a `Searcher`.
"""

from __future__ import annotations

from collections.abc import Callable

from sottovoce.registry import Registry
from sottovoce.retrievers.passage import Searcher
from sottovoce.retrievers.retriever import MOST, PassageRetriever

RETRIEVERS: Registry[Callable[[str], Searcher]] = Registry(
    "retriever",
    "sottovoce.retrievers",
    {
        "bm25": "sottovoce.retrievers.bm25:open_bm25",
        "dense": "sottovoce.retrievers.dense:open_dense",
        "dpr": "sottovoce.retrievers.dense:open_dpr",
        "lucene": "sottovoce.retrievers.lucene:open_lucene",
        "pyserini": "sottovoce.retrievers.pyserini:open_pyserini",
        "google": "sottovoce.retrievers.google:open_google",
        "wikipedia": "sottovoce.retrievers.wikipedia:open_wikipedia",
        "hybrid": "sottovoce.retrievers.fusion:open_hybrid",
        "encyclopedia": "sottovoce.environments.encyclopedia.index:open_encyclopedia",
    },
)

register_retriever = RETRIEVERS.register
"""Make a way to open a searcher usable by name."""


def open_retriever(spec: str, k: int = MOST) -> PassageRetriever:
    """The retriever that `NAME` or `NAME:WHERE` says: `bm25:indexes/wiki`, `google`.

    Raises:
        UsageError: no retriever has that name, its extra is not installed, or there is no such index.
    """
    return PassageRetriever(searcher=open_searcher(spec), k=k)


def open_searcher(spec: str) -> Searcher:
    """What that retriever searches with.

    Raises:
        UsageError: as `open_retriever`.
    """
    name, _, where = spec.partition(":")
    return RETRIEVERS[name](where)
