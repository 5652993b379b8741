"""Retrieval of passages that match a question, from indexes on disk and from services.

Importing this package loads no index library, torch, Java or LangChain: each is loaded when needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.retrievers.passage import Hit, Passage, Searcher

if TYPE_CHECKING:
    from sottovoce.retrievers.registry import open_retriever
    from sottovoce.retrievers.retriever import PassageRetriever

__all__ = ["Hit", "Passage", "PassageRetriever", "Searcher", "open_retriever"]


def __getattr__(name: str) -> Any:  # Any: a class or a function
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sottovoce.retrievers import registry, retriever  # late: LangChain, which the command line does not need

    return getattr(retriever if name == "PassageRetriever" else registry, name)
