"""What is searched, by the settings: the encyclopedia that ships, the question's documents, or a retriever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sottovoce.environments.encyclopedia import encyclopedia
from sottovoce.environments.pages import Found, Library, Page, Pages, key
from sottovoce.environments.sentences import paragraphs, sentences
from sottovoce.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import Question, passages_of
from sottovoce.nodes.settings import ReAct
from sottovoce.nodes.settings.looking import DOCUMENTS, ENCYCLOPEDIA

if TYPE_CHECKING:
    from sottovoce.retrievers import Passage, Searcher
    from sottovoce.retrievers.bm25 import BM25Index

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


def library_of(run: RunContext[ReAct], question: Question) -> Library:
    """The library of a run; those that are not the question's own are opened once.

    Raises:
        UsageError: there is no such library, or it cannot be searched so.
    """
    settings = run.settings
    if settings.library == DOCUMENTS:
        return _documents(question, by_title=settings.search == "title")
    if settings.library not in run.memo:
        run.memo[settings.library] = _opened(settings.library, by_title=settings.search == "title")
    found: Library = run.memo[settings.library]
    return found


def _opened(spec: str, *, by_title: bool) -> Library:
    name, _, seed = spec.partition(":")
    if by_title and name == ENCYCLOPEDIA and (not seed or seed.isdecimal()):
        return encyclopedia(int(seed or 0))
    from sottovoce.retrievers.registry import open_searcher  # late: it may bring index libraries

    searcher = open_searcher(spec)
    if not by_title:
        return _found(searcher)
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


def _documents(question: Question, *, by_title: bool) -> Library:
    if by_title:
        return Pages(_joined(_titled(question)))
    return _found(index_of(question))


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


def _found(searcher: Searcher) -> Found:
    return Found(lambda query: [hit.passage.text for hit in searcher.search(query, BEST)] if query.strip() else [])
