"""A LangChain retriever over any searcher, with a fixed schema of metadata."""

from __future__ import annotations

from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.core.errors import UsageError
from sottovoce.core.validation import first_wrong
from sottovoce.retrievers.passage import MOST, Filter, Hit, Searcher, search


class PassageRetriever(BaseRetriever):
    """A retriever of a searcher's passages: `PassageRetriever(searcher=index).invoke("Who built the mill?", k=3)`.

    A document's `id` is `source:docid`; its content is the passage's text. Its metadata are plain Python values, as
    checkpoints require: `docid`, `title`, `url` (or None), `source`, `score` (see `Hit`), `rank` (1-based), `query`,
    `k`, `index` (the searcher's fingerprint), and `metadata`, the passage's own. The latter are also on the top level,
    unless a name clashes. A blank query finds nothing.
    """

    searcher: Any = Field(
        exclude=True, repr=False
    )  # Any: a `Searcher`; pydantic cannot check a protocol with properties
    k: int = Field(default=MOST, ge=1)
    """Maximum number of passages; `invoke(query, k=...)` overrides it for one query."""
    filter: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Values that a passage must have in its metadata, or as docid, title or url; `invoke(query, filter=...)` wins."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:  # Any: not validated yet
        try:
            return build(values)
        except ValidationError as error:
            raise UsageError(first_wrong(error, cls.__name__)) from error

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | None = None,
    ) -> list[Document]:
        return self._found(query, self.k if k is None else k, self.filter if filter is None else filter)

    async def _aget_relevant_documents(  # LangChain's own method takes no k
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | None = None,
    ) -> list[Document]:
        given = self.filter if filter is None else filter
        return await run_in_executor(None, self._found, query, self.k if k is None else k, given)

    def _found(self, query: str, k: int, filter: Filter) -> list[Document]:
        if k < 1:
            raise UsageError(f"k is {k!r}: expected at least 1 passage")
        query = query.encode("utf-8", "replace").decode()  # libraries reject lone surrogates
        searcher: Searcher = self.searcher
        hits = search(searcher, query, k, filter) if query.strip() else []
        about: dict[str, object] = {"source": searcher.source, "query": query, "k": k, "index": searcher.fingerprint}
        return [_document(hit, rank, about) for rank, hit in enumerate(hits, 1)]


def _document(hit: Hit, rank: int, about: dict[str, object]) -> Document:
    passage = hit.passage
    told = {"docid": passage.docid, "title": passage.title, "url": passage.url, "score": float(hit.score), "rank": rank}
    own = dict(passage.metadata)
    metadata = {**own, **told, **about, "metadata": own}
    return Document(passage.text, id=f"{about['source']}:{passage.docid}", metadata=metadata)
