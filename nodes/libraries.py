"""What is searched, by the settings: the encyclopedia that ships, the question's documents, or a retriever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sottovoce.environments.encyclopedia import encyclopedia
from sottovoce.environments.pages import Found, Library, Page, Pages, key
from sottovoce.environments.sentences import paragraphs, sentences
from sottovoce.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import Question, passages_of
from sottovoce.nodes.settings import ReAct
from sottovoce.nodes.settings.looking import DOCUMENTS, ENCYCLOPEDIA

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from sottovoce.retrievers import Passage, Searcher
    from sottovoce.retrievers.bm25 import BM25Index
    from sottovoce.retrievers.passage import Filter

BEST = 3
"""Passages that are a page (SDE)."""


@runtime_checkable
class Wiki(Protocol):
    """A service that has whole pages."""

    def page(self, title: str) -> Passage | None:
        """The page of that title."""

    def similar(self, query: str, n: int) -> list[str]:
        """Titles like it."""


class Articles:
    """A wiki as a library, read as in ReAct's own: paragraphs and lists count, and section headings do not."""

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki

    def page(self, name: str) -> Page | None:
        """Return the page of that name in sentences; None where there is none, or one that names several."""
        found = self._wiki.page(name)
        return Page(found.title, sentences(paragraphs(found.text))) if found else None

    def similar(self, name: str, n: int) -> list[str]:
        """Return the titles that the wiki's own search finds."""
        return self._wiki.similar(name, n)


class FoundPassages(Found):
    """The best passages of a search as one page; it keeps those of the last search."""

    def __init__(self, searcher: Searcher, filter: Filter) -> None:
        from sottovoce.retrievers import PassageRetriever  # late: it brings LangChain's retrievers

        self.documents: list[Document] = []
        self._retriever = PassageRetriever(searcher=searcher, filter=dict(filter))
        super().__init__(self._texts)

    def _texts(self, query: str) -> list[str]:
        self.documents = self._retriever.invoke(query, k=BEST)
        return [each.page_content for each in self.documents]


def library_of(run: RunContext[ReAct], question: Question) -> Library:
    """The library of a run; those that are not the question's own are opened once.

    Raises:
        UsageError: there is no such library, or it cannot be searched so.
    """
    settings = run.settings
    if settings.library == DOCUMENTS and settings.search == "title":
        return Pages(_joined(_titled(question)))
    if settings.search == "passages":
        return FoundPassages(searcher_of(run, question, settings.library), settings.filter)
    if settings.library not in run.memo:
        run.memo[settings.library] = _by_title(settings.library)
    found: Library = run.memo[settings.library]
    return found


def searcher_of(run: RunContext[Any], question: Question, spec: str) -> Searcher:
    """Return what a retriever's name searches, with the run's reranker, opened once a run; or the question's documents.

    Raises:
        UsageError: it cannot be opened, or the question has no documents.
    """
    if spec == DOCUMENTS:
        return _reranked(run, index_of(question))
    name = f"retriever {spec}"  # libraries are kept by the name alone
    if name not in run.memo:
        from sottovoce.retrievers.registry import open_searcher  # late: it may bring index libraries

        run.memo[name] = _reranked(run, open_searcher(spec))
    found: Searcher = run.memo[name]
    return found


def _reranked(run: RunContext[Any], searcher: Searcher) -> Searcher:
    spec = run.settings.rerank
    if spec is None:
        return searcher
    from sottovoce.retrievers.reranking import Reranked, open_reranker  # late: transformers

    name = f"reranker {spec}"
    if name not in run.memo:
        run.memo[name] = open_reranker(spec)
    return Reranked(searcher, run.memo[name])


def _by_title(spec: str) -> Library:
    name, _, seed = spec.partition(":")
    if name == ENCYCLOPEDIA and (not seed or seed.isdecimal()):
        return encyclopedia(int(seed or 0))
    from sottovoce.retrievers.registry import open_searcher  # late: it may bring index libraries

    searcher = open_searcher(spec)
    if isinstance(searcher, Wiki):
        return Articles(searcher)
    raise UsageError(f"library {spec!r} finds passages, and has no pages by title; add --search passages")


def index_of(question: Question) -> BM25Index:
    """The question's own documents, by shared words.

    Raises:
        UsageError: it has none.
    """
    from sottovoce.retrievers.bm25 import BM25Index
    from sottovoce.retrievers.passage import Passage

    titled = enumerate(_titled(question), 1)
    return BM25Index.build((Passage(str(number), text, title) for number, (title, text) in titled), source=DOCUMENTS)


def _titled(question: Question) -> list[tuple[str, str]]:
    passages = passages_of(question, None)
    if not passages:
        raise UsageError("the library is 'documents', but the question has none; give it some, or another one")
    return [(each.get("title") or f"Document {number}", each["text"]) for number, each in enumerate(passages, 1)]


def _joined(titled: Iterable[tuple[str, str]]) -> list[Page]:
    """Passages of one title are one page: data sets cut articles into several."""
    pages: dict[str, Page] = {}
    for title, text in titled:
        before = pages.get(key(title), Page(title, ()))
        pages[key(title)] = before._replace(sentences=before.sentences + sentences(text))
    return list(pages.values())
