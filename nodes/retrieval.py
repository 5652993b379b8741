"""The library that agents search, by the settings: the built-in encyclopedia, the question's documents, a retriever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sottovoce.core.errors import UsageError
from sottovoce.environments.encyclopedia import encyclopedia
from sottovoce.environments.pages import Library, Page, Pages, key, paragraphs
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import Question, passages_of
from sottovoce.prompts.kinds.sentences import sentences
from sottovoce.settings import ReAct
from sottovoce.settings.retrieval import DOCUMENTS, ENCYCLOPEDIA

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from sottovoce.retrievers import Passage, PassageRetriever
    from sottovoce.retrievers.bm25 import BM25Index

BEST = 3
"""Number of passages on a page (SDE)."""


@runtime_checkable
class Wiki(Protocol):
    """A service that has whole pages."""

    def page(self, title: str) -> Passage | None:
        """Return the page of that title; None without one."""

    def similar(self, query: str, n: int) -> list[str]:
        """Return up to `n` similar titles."""


class Articles:
    """A wiki as a library, read as in ReAct's code: paragraphs and lists count, section headings do not."""

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki

    def page(self, name: str) -> Page | None:
        """Return the page of that name in sentences; None if there is none, or if it is a disambiguation page."""
        found = self._wiki.page(name)
        return Page(found.title, tuple(sentences(paragraphs(found.text)))) if found else None

    def similar(self, name: str, n: int) -> list[str]:
        """Return the titles that the wiki's own search finds."""
        return self._wiki.similar(name, n)


class FoundPassages:
    """A library whose pages are the best passages of a search (SDE's world), with the documents of the last search."""

    def __init__(self, retriever: PassageRetriever) -> None:
        self.documents: list[Document] = []
        self._retriever = retriever

    def page(self, name: str) -> Page | None:
        """Return the passages as one page; None if the search finds none."""
        self.documents = self._retriever.invoke(name, k=BEST)
        texts = [each.page_content for each in self.documents]
        return Page(name, tuple(sentences("\n".join(texts)))) if texts else None

    def similar(self, name: str, n: int) -> list[str]:
        """Return no titles, since a search is not by title."""
        return []


def library_of(run: RunContext[ReAct], question: Question) -> Library:
    """Return the library of a run; libraries other than the question's documents are opened once.

    Raises:
        UsageError: there is no such library, or it cannot be searched this way.
    """
    settings = run.settings
    if settings.library == DOCUMENTS and settings.search == "title":
        return Pages(_joined(_titled(question)))
    if settings.search == "passages":
        return FoundPassages(retriever_of(run, question, settings.library))
    return run.once(settings.library, lambda: _by_title(settings.library))


def retriever_of(run: RunContext[Any], question: Question, spec: str) -> PassageRetriever:
    """Return a retriever by name, or of the question's documents, with the run's reranker and filter.

    Raises:
        UsageError: it cannot be opened, or the question has no documents.
    """
    from sottovoce.retrievers import PassageRetriever  # late: it brings LangChain's retrievers
    from sottovoce.retrievers.registry import open_searcher  # late: it may bring index libraries

    # Libraries use the plain name as key.
    searcher = index_of(question) if spec == DOCUMENTS else run.once(f"retriever {spec}", lambda: open_searcher(spec))
    if (rerank := run.settings.rerank) is not None:
        from sottovoce.retrievers.reranking import Reranked, open_reranker  # late: transformers

        searcher = Reranked(searcher, run.once(f"reranker {rerank}", lambda: open_reranker(rerank)))
    return PassageRetriever(searcher=searcher, filter=dict(run.settings.filter))


def _by_title(spec: str) -> Library:
    if spec == ENCYCLOPEDIA:
        return encyclopedia()
    from sottovoce.retrievers.registry import open_searcher  # late: it may bring index libraries

    searcher = open_searcher(spec)
    if isinstance(searcher, Wiki):
        return Articles(searcher)
    raise UsageError(f"library {spec!r} finds passages, not pages by title; add --search passages")


def index_of(question: Question) -> BM25Index:
    """Return a BM25 index of the question's own documents.

    Raises:
        UsageError: it has no documents.
    """
    from sottovoce.retrievers.bm25 import BM25Index
    from sottovoce.retrievers.passage import Passage

    titled = enumerate(_titled(question), 1)
    return BM25Index.build((Passage(str(number), text, title) for number, (title, text) in titled), source=DOCUMENTS)


def _titled(question: Question) -> list[tuple[str, str]]:
    passages = passages_of(question, None)
    if not passages:
        raise UsageError("the library is 'documents', but the question has none; add some, or use another library")
    return [(each.get("title") or f"Document {number}", each["text"]) for number, each in enumerate(passages, 1)]


def _joined(titled: Iterable[tuple[str, str]]) -> list[Page]:
    """Return pages, with passages of one title joined: data sets split articles."""
    pages: dict[str, Page] = {}
    for title, text in titled:
        before = pages.get(key(title), Page(title, ()))
        pages[key(title)] = before._replace(sentences=(*before.sentences, *sentences(text)))
    return list(pages.values())
