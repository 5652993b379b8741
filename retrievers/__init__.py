"""What is known outside: passages that fit a question, from indexes on disk and from services.

Importing this loads no index library, no torch, no Java and no LangChain: each is loaded when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.retrievers.passage import Hit, Passage, Searcher

if TYPE_CHECKING:
    from sottovoce.retrievers.registry import open_retriever
    from sottovoce.retrievers.retriever import PassageRetriever

__all__ = ["Hit", "Passage", "PassageRetriever", "Searcher", "open_retriever"]


def __getattr__(name: str) -> Any:  # Any: what a module holds
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sottovoce.retrievers import registry, retriever  # late: LangChain, and the command line wants options alone

    return getattr(retriever if name == "PassageRetriever" else registry, name)
