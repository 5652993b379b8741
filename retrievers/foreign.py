"""Sources of other packages: any LangChain retriever or vector store, given as an object or by a dotted name.

A dotted name, `package.module:attribute`, runs what that module holds. So it is for whoever starts the process.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from typing_extensions import TypeIs

from sottovoce.errors import RetrievalError, UsageError, first_line
from sottovoce.retrievers.passage import OF_HITS, Filter, Hit, Passage, Searcher, key_of, plain

if TYPE_CHECKING:
    from langchain_core.vectorstores import VectorStoreRetriever

DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DOCID = ("docid", "doc_id", "id", "_id")
"""Metadata that may name a document without an id."""


class LangChainSearcher:
    """A `Searcher` over a LangChain retriever; its scores are 1/rank, since stores disagree on what theirs mean."""

    fingerprint = ""

    def __init__(self, retriever: BaseRetriever, source: str) -> None:
        """`source` is what its passages are attributed to."""
        self._retriever, self.source = retriever, source

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the first `k` documents.

        Raises:
            RetrievalError: the retriever failed, whatever it raised.
        """
        return self._hits(query, k, {})

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the same of those that pass a filter: a vector store applies it, of others' documents it leaves some.

        Raises:
            RetrievalError: as `search`.
            UsageError: the retriever has a filter of its own that is no mapping.
        """
        if _is_store(self._retriever):
            return self._hits(query, k, {"filter": self._of_store(self._retriever, filter)})
        return [hit for hit in self._hits(query, 0, {}) if hit.passage.passes(filter)][:k]

    def _of_store(self, retriever: VectorStoreRetriever, filter: Filter) -> Any:  # Any: a mapping, or a function
        from langchain_core.vectorstores import InMemoryVectorStore  # late: it brings numpy

        own = retriever.search_kwargs.get("filter") or {}
        if not isinstance(own, dict):
            raise UsageError(f"retriever {self.source!r} has a filter of its own, {own!r}; expected none, or a mapping")
        wanted = {**filter, **own}
        if isinstance(retriever.vectorstore, InMemoryVectorStore):  # it takes a function, and most others a mapping
            return lambda document: _passage(document).passes(wanted)
        return wanted

    def _hits(self, query: str, k: int, given: dict[str, Any]) -> list[Hit]:  # Any: see above
        if k and _is_store(self._retriever):
            given = {**given, "k": k}
        try:
            found = self._retriever.invoke(query, **given)
        except Exception as error:  # another package's code: what it raises is not known
            raise RetrievalError(
                f"retriever {self.source!r} failed: {type(error).__name__}: {first_line(error)}"
            ) from error
        return [Hit(_passage(document), 1 / rank) for rank, document in enumerate(found[: k or None], 1)]


def searcher_of(thing: Any, source: str) -> Searcher:  # Any: as it was given
    """Return what searches a retriever, a vector store or a searcher; or of what a function returns that makes one.

    Raises:
        UsageError: it is none of them.
    """
    from langchain_core.vectorstores import VectorStore  # late: it brings numpy

    if isinstance(thing, VectorStore):
        thing = thing.as_retriever()
    if isinstance(thing, BaseRetriever):
        searcher: Searcher = getattr(thing, "searcher", None) or LangChainSearcher(thing, source)
        return searcher
    if not isinstance(thing, type) and hasattr(thing, "search"):
        found: Searcher = thing
        return found
    if callable(thing):
        return searcher_of(_made(thing, source), source)
    raise UsageError(
        f"{source!r} is of type {type(thing).__name__}; expected a LangChain retriever or vector store, a searcher, "
        "or a function without arguments that returns one"
    )


def _is_store(retriever: BaseRetriever) -> TypeIs[VectorStoreRetriever]:
    from langchain_core.vectorstores import VectorStoreRetriever  # late: it brings numpy

    return isinstance(retriever, VectorStoreRetriever)


def imported(spec: str, expected: str) -> Any:  # Any: whatever has that name
    """Import what a dotted name says; its module runs.

    Raises:
        UsageError: there is none, or its module fails.
    """
    module, _, attribute = spec.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except Exception as error:  # the module's own code may raise anything
        raise UsageError(
            f"{spec!r} cannot be imported as {expected}: {type(error).__name__}: {first_line(error)}"
        ) from error
    return found


def _made(function: Any, source: str) -> Any:  # Any: as it was given
    try:
        made = function()
    except Exception as error:  # see above
        raise UsageError(f"{source!r} cannot be made: {type(error).__name__}: {first_line(error)}") from error
    if callable(made) and not hasattr(made, "search"):
        raise UsageError(f"{source!r} returned {type(made).__name__}; expected a retriever or a vector store")
    return made


def _passage(document: Document) -> Passage:
    about = document.metadata
    named = next((str(about[name]) for name in DOCID if about.get(name) not in (None, "")), "")
    docid = document.id or named or key_of(document.page_content)
    address = about.get("url")
    own = {name: value for name, value in about.items() if name not in OF_HITS - {"source"}}
    return Passage(
        " ".join(str(docid).split()),
        document.page_content,
        str(about.get("title") or ""),
        str(address) if address else None,
        plain(own),
    )
