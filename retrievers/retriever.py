"""The base class of our retrievers, which are LangChain retrievers, and other packages' retrievers and vector stores.

Any LangChain retriever or vector store can be used, as an object or by a dotted name. A dotted name,
`package.module:attribute`, runs that module, so only the person who starts the process may give one.
"""

from __future__ import annotations

import importlib
import re
from abc import abstractmethod
from functools import partial
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import RetrievalError, UsageError, first_line
from sottovoce.core.event_loop import wait
from sottovoce.core.validation import first_wrong
from sottovoce.retrievers.passage import DEFAULT_K, Filter, Hit, Passage, key_of, plain

WIDER = 4
"""Factor by which a search is widened when a filter leaves too few hits."""
WIDEST = 100_000
"""Largest number of hits that are checked against a filter."""


class PassageRetriever(BaseRetriever):
    """A LangChain retriever of passages: `index.invoke("Who built the mill?", k=3)`. A kind of it defines `search`.

    A document's `id` is `source:docid`; its content is the passage's text. Its metadata are plain Python values, as
    checkpoints require: `docid`, `title`, `url` (or None), `source`, `score` (see `Hit`), `rank` (1-based), `query`,
    `k`, and `metadata`, the passage's own. The latter are also on the top level,
    unless a name clashes. A blank query finds nothing.
    """

    model_config = ConfigDict(validate_assignment=True)

    source: str
    """Source to which the passages are attributed, e.g. `wikipedia`."""
    k: int = Field(default=DEFAULT_K, ge=1)
    """Maximum number of passages; `invoke(query, k=...)` overrides it for one query."""
    filter: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Values that a passage must have in its metadata, or as docid, title or url; that of a query is added."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: JSONValue, build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(values)
        except ValidationError as error:
            raise UsageError(first_wrong(error, cls.__name__)) from error

    @abstractmethod
    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` hits for a query that is not blank, best first. Several threads may search at once.

        Raises:
            RetrievalError: The search failed.
        """

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the best `k` hits that pass a filter: more are searched for until `k` pass."""
        depth = k
        while filter:
            depth = min(WIDER * depth, WIDEST)
            hits = self.search(query, depth)
            passing = [hit for hit in hits if hit.passage.passes(filter)]
            if len(passing) >= k or len(hits) < depth or depth == WIDEST:
                return passing[:k]
        return self.search(query, k)

    def hits(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the best `k` hits that pass a filter and the retriever's own."""
        found = self.search_filtered(query, k, {**filter, **self.filter})
        return [hit for hit in found if hit.passage.passes(filter)]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:  # options: k and filter, see `_documents`
        return self._documents(query, **options)

    async def _aget_relevant_documents(  # LangChain's own method takes no k
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await run_in_executor(None, partial(self._documents, query, **options))

    def _documents(self, query: str, k: int | None = None, filter: Filter | None = None) -> list[Document]:
        k = self.k if k is None else k
        if k < 1:
            raise UsageError(f"k is {k!r}: expected at least 1 passage")
        query = query.encode("utf-8", "replace").decode()  # libraries reject lone surrogates
        hits = self.hits(query, k, filter or {}) if query.strip() else []
        about, documents = {"source": self.source, "query": query, "k": k}, []
        for rank, hit in enumerate(hits, 1):
            passage, own = hit.passage, dict(hit.passage.metadata)
            known = {"docid": passage.docid, "title": passage.title, "url": passage.url, "score": float(hit.score)}
            metadata = {**own, **known, "rank": rank, **about, "metadata": own}
            documents.append(Document(passage.text, id=f"{self.source}:{passage.docid}", metadata=metadata))
        return documents


DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DOCID = ("docid", "doc_id", "id", "_id")
"""Metadata keys that may name a document without an id."""
OF_PASSAGE = ("docid", "title", "url")
"""Metadata keys that become fields of a passage."""


class LangChainRetriever(PassageRetriever):
    """Another package's retriever; its scores are 1/rank, because stores define scores differently."""

    retriever: BaseRetriever

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the first `k` documents."""
        return self.search_filtered(query, k, {})

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the first `k` documents that pass a filter.

        A vector store gets the filter. Every document is checked anyway, since some stores ignore a filter.
        """
        arguments = self._of_store(k, filter)
        try:
            try:
                documents = self.retriever.invoke(query, **arguments)
            except NotImplementedError:  # it may be only asynchronous
                documents = wait(self.retriever.ainvoke(query, **arguments))
            hits = [Hit(_passage(document), 1 / rank) for rank, document in enumerate(documents, 1)]
        except Exception as error:  # another package's code may raise or return anything
            raise RetrievalError(
                f"retriever {self.source!r} failed: {type(error).__name__}: {first_line(error)}"
            ) from error
        return [hit for hit in hits if hit.passage.passes(filter)][:k]

    def _of_store(self, k: int, filter: Filter) -> JSON:
        """Return the arguments of a vector store's search; none for another retriever."""
        from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever  # late: they bring numpy

        if not isinstance(self.retriever, VectorStoreRetriever):
            return {}
        if not filter:
            return {"k": k}
        own = self.retriever.search_kwargs.get("filter") or {}
        if not isinstance(own, dict):
            raise UsageError(f"retriever {self.source!r} has the filter {own!r}; expected a mapping or no filter")
        joined = {**filter, **own}
        if isinstance(self.retriever.vectorstore, InMemoryVectorStore):  # it needs a function; most others a mapping
            return {"k": k, "filter": lambda document: _passage(document).passes(joined)}
        return {"k": k, "filter": joined}


def retriever_over(thing: Any, source: str) -> PassageRetriever:  # Any: an object of any type
    """Return a retriever of passages over a LangChain retriever or vector store, or the one that a function returns.

    Raises:
        UsageError: The object is of another type.
    """
    from langchain_core.vectorstores import VectorStore  # late: it brings numpy

    if callable(thing):
        thing = made_by(thing, source)
    if isinstance(thing, VectorStore):
        thing = thing.as_retriever()
    if isinstance(thing, PassageRetriever):
        return thing
    if isinstance(thing, BaseRetriever):
        return LangChainRetriever(source=source, retriever=thing)
    raise UsageError(
        f"{source!r} is of type {type(thing).__name__}; expected a LangChain retriever (PassageRetriever is a "
        "base class) or vector store, or a function without arguments that returns one"
    )


def imported(spec: str, expected: str) -> Any:  # Any: whatever has that name
    """Import the object with this dotted name, which runs its module."""
    module, _, attribute = spec.partition(":")
    try:
        value: Any = importlib.import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
    except Exception as error:  # the module's own code may raise anything
        raise UsageError(
            f"{spec!r} cannot be imported as {expected}: {type(error).__name__}: {first_line(error)}"
        ) from error
    return value


def made_by(function: Any, source: str) -> Any:  # Any: a function, and an object of any type
    """Return the object that a function without arguments makes."""
    try:
        return function()
    except Exception as error:  # see above
        raise UsageError(f"{source!r} cannot be made: {type(error).__name__}: {first_line(error)}") from error


def _passage(document: Document) -> Passage:
    about = document.metadata
    named = next((str(about[name]) for name in DOCID if about.get(name) not in (None, "")), "")
    docid = document.id or named or key_of(document.page_content)
    address = about.get("url")
    own = {name: value for name, value in about.items() if name not in OF_PASSAGE}
    return Passage(
        " ".join(str(docid).split()),
        document.page_content,
        str(about.get("title") or ""),
        str(address) if address else None,
        plain(own),
    )
