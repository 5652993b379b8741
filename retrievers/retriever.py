"""The bridge to LangChain: a LangChain retriever over any searcher, and searchers over LangChain's objects.

Any LangChain retriever or vector store can be used, as an object or by a dotted name. A dotted name,
`package.module:attribute`, runs that module, so only the person who starts the process may give one.
"""

from __future__ import annotations

import importlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator
from typing_extensions import TypeIs

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import RetrievalError, UsageError, first_line
from sottovoce.core.event_loop import wait
from sottovoce.core.validation import first_wrong
from sottovoce.retrievers.passage import DEFAULT_K, Filter, Filtered, Hit, Passage, Searcher, key_of, plain, search

if TYPE_CHECKING:
    from langchain_core.vectorstores import VectorStoreRetriever


class PassageRetriever(BaseRetriever):
    """A retriever of a searcher's passages: `PassageRetriever(searcher=index).invoke("Who built the mill?", k=3)`.

    A document's `id` is `source:docid`; its content is the passage's text. Its metadata are plain Python values, as
    checkpoints require: `docid`, `title`, `url` (or None), `source`, `score` (see `Hit`), `rank` (1-based), `query`,
    `k`, and `metadata`, the passage's own. The latter are also on the top level,
    unless a name clashes. A blank query finds nothing.
    """

    searcher: Any = Field(
        exclude=True, repr=False
    )  # Any: a `Searcher`; pydantic cannot check a protocol with properties
    k: int = Field(default=DEFAULT_K, ge=1)
    """Maximum number of passages; `invoke(query, k=...)` overrides it for one query."""
    filter: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Values that a passage must have in its metadata, or as docid, title or url; `invoke(query, filter=...)` wins."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: JSONValue, build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(values)
        except ValidationError as error:
            raise UsageError(first_wrong(error, cls.__name__)) from error

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:  # options: k and filter, see `_documents`
        return self._documents(query, **options)

    async def _aget_relevant_documents(  # LangChain's own method takes no k
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await run_in_executor(None, partial(self._documents, query, **options))

    def _documents(self, query: str, k: int | None = None, filter: Filter | None = None) -> list[Document]:
        k, filter = self.k if k is None else k, self.filter if filter is None else filter
        if k < 1:
            raise UsageError(f"k is {k!r}: expected at least 1 passage")
        query = query.encode("utf-8", "replace").decode()  # libraries reject lone surrogates
        searcher: Searcher = self.searcher
        hits = search(searcher, query, k, filter) if query.strip() else []
        about, documents = {"source": searcher.source, "query": query, "k": k}, []
        for rank, hit in enumerate(hits, 1):
            passage, own = hit.passage, dict(hit.passage.metadata)
            known = {"docid": passage.docid, "title": passage.title, "url": passage.url, "score": float(hit.score)}
            metadata = {**own, **known, "rank": rank, **about, "metadata": own}
            documents.append(Document(passage.text, id=f"{searcher.source}:{passage.docid}", metadata=metadata))
        return documents


DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DOCID = ("docid", "doc_id", "id", "_id")
"""Metadata keys that may name a document without an id."""
OF_PASSAGE = ("docid", "title", "url")
"""Metadata keys that become fields of a passage."""


class LangChainSearcher:
    """A `Searcher` over a LangChain retriever; its scores are 1/rank, since stores disagree on what theirs mean."""

    def __init__(self, retriever: BaseRetriever, source: str) -> None:
        """Take a retriever, and the source to which its passages are attributed."""
        self._retriever, self.source = retriever, source

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the first `k` documents."""
        return self._hits(query, k, {})

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the first `k` documents that pass a filter.

        A vector store gets the filter. Every document is checked anyway, since some stores ignore a filter.
        """
        if _is_store(self._retriever):
            hits = self._hits(query, k, {"filter": self._of_store(self._retriever, filter)})
        else:
            hits = self._hits(query, 0, {})
        return [hit for hit in hits if hit.passage.passes(filter)][:k]

    def _of_store(self, retriever: VectorStoreRetriever, filter: Filter) -> Any:  # Any: a mapping, or a function
        from langchain_core.vectorstores import InMemoryVectorStore  # late: it brings numpy

        own = retriever.search_kwargs.get("filter") or {}
        if not isinstance(own, dict):
            raise UsageError(f"retriever {self.source!r} has a filter of its own, {own!r}; expected a mapping or none")
        joined = {**filter, **own}
        if isinstance(retriever.vectorstore, InMemoryVectorStore):  # it needs a function; most others need a mapping
            return lambda document: _passage(document).passes(joined)
        return joined

    def _hits(self, query: str, k: int, arguments: JSON) -> list[Hit]:
        if k and _is_store(self._retriever):
            arguments = {**arguments, "k": k}
        try:
            documents = self._documents(query, arguments)[: k or None]
            return [Hit(_passage(document), 1 / rank) for rank, document in enumerate(documents, 1)]
        except Exception as error:  # another package's code may raise or return anything
            raise RetrievalError(
                f"retriever {self.source!r} failed: {type(error).__name__}: {first_line(error)}"
            ) from error

    def _documents(self, query: str, arguments: JSON) -> list[Document]:
        try:
            return self._retriever.invoke(query, **arguments)
        except NotImplementedError:  # it may be only asynchronous
            return wait(self._retriever.ainvoke(query, **arguments))


def searcher_of(thing: Any, source: str) -> Searcher:  # Any: an object of any type
    """Return a searcher over a retriever, a vector store or a searcher, or over the one that a function returns.

    Raises:
        UsageError: The object is of another type.
    """
    from langchain_core.vectorstores import VectorStore  # late: it brings numpy

    if isinstance(thing, VectorStore):
        thing = thing.as_retriever()
    if isinstance(thing, PassageRetriever):
        own: Searcher = thing.searcher
        return Filtered(own, thing.filter) if thing.filter else own
    if isinstance(thing, BaseRetriever):
        return LangChainSearcher(thing, source)
    if not isinstance(thing, type) and hasattr(thing, "search"):
        searcher: Searcher = thing
        return searcher
    if callable(thing):
        return searcher_of(call_factory(thing, source, "search"), source)
    raise UsageError(
        f"{source!r} is of type {type(thing).__name__}; expected a LangChain retriever or vector store, a searcher, "
        "or a function without arguments that returns one"
    )


def _is_store(retriever: BaseRetriever) -> TypeIs[VectorStoreRetriever]:
    from langchain_core.vectorstores import VectorStoreRetriever  # late: it brings numpy

    return isinstance(retriever, VectorStoreRetriever)


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


def call_factory(function: Any, source: str, method: str) -> Any:  # Any: a function, and an object of any type
    """Return the object that a function without arguments makes: one with this method, or a LangChain object."""
    try:
        thing = function()
    except Exception as error:  # see above
        raise UsageError(f"{source!r} cannot be made: {type(error).__name__}: {first_line(error)}") from error
    if callable(thing) and not hasattr(thing, method):
        raise UsageError(f"{source!r} returned a {type(thing).__name__}; expected an object with `{method}`")
    return thing


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
