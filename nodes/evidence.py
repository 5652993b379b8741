"""The library that agents search (encyclopedia, documents or a retriever), and evidence that is pooled from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.environments.encyclopedia import encyclopedia
from sottovoce.environments.react import Library, Page, Pages, key, paragraphs
from sottovoce.nodes.question import Passage, Question, passages_of
from sottovoce.nodes.shared_settings import DOCUMENTS, ENCYCLOPEDIA, Pooled
from sottovoce.nodes.state import Discussion, Update
from sottovoce.prompts.kinds.kind import sentences
from sottovoce.retrievers.pool import Evidence, Origin, Pool

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.runnables import Runnable

    from sottovoce.nodes.context import RunContext
    from sottovoce.retrievers import Passage as Piece
    from sottovoce.retrievers import PassageRetriever
    from sottovoce.retrievers.bm25 import BM25Index


LIBRARY, RETRIEVE = "library", "retrieve"
WIDTH = 60
"""Number of characters that name a piece without a title."""


@dataclass(frozen=True)
class Search:
    """A query, and the agent that it is for, or an empty name if it is for all."""

    query: str
    agent: str = ""


@dataclass(frozen=True)
class Found:
    """The results of searches."""

    pool: Pool
    order: list[str] = field(default_factory=list)
    """Keys in the order of first occurrence: by search, source and rank."""
    failed: list[str] = field(default_factory=list)
    """One line for each failed source; the results of the others are used."""


def search(run: RunContext[Any], question: Question, searches: Iterable[Search], round: int = 0) -> Found:
    """Ask every source for each query.

    Raises:
        UsageError: a source cannot be opened.
        RetrievalError: all of them failed.
    """
    from sottovoce.retrievers.pool import merged, pool_of

    asked = [(wanted, spec, most) for wanted in searches for spec, most in run.settings.sources()]
    pools, failed = list[Pool](), list[RetrievalError]()
    for wanted, spec, most in asked:
        try:
            documents = retriever_of(run, question, spec).invoke(wanted.query, k=most)
            pools += [pool_of([document], wanted.agent, round) for document in documents]
        except RetrievalError as error:  # one source only: others may succeed
            failed.append(error)
    if asked and len(failed) == len(asked):
        raise failed[0]
    order = dict.fromkeys(key for pool in pools for key in pool)
    return Found(reduce(merged, pools, {}), [*order], [str(error) for error in failed])


def numbers(settings: Pooled, evidence: Found, pool: Mapping[str, Evidence], before: Sequence[str] = ()) -> list[str]:
    """Return keys by number, in order of retrieval or by fused ranks. Old numbers do not change."""
    from sottovoce.retrievers.pool import Listed, fused, numbered

    if settings.pool == "faithful":
        return numbered(map(Listed, evidence.order), before)
    most = sum(most for _, most in settings.sources())
    return numbered(fused(pool)[:most], before)


def passages(pool: Mapping[str, Evidence], keys: Sequence[str]) -> list[Passage]:
    """Return the pieces with these keys, as agents are shown them."""
    return [_passage(pool[key]) for key in keys]


def evidence_message(
    run: RunContext[Any],
    state: Discussion,
    pool: Mapping[str, Evidence],
    keys: Sequence[str],
    origins: Found,
    first: int = 0,
) -> Message:
    """Return a message that lists the pieces and their origins, from number `first` on."""
    lines = [f"[{number}] {_named(pool[key])}" for number, key in enumerate(keys) if number >= first]
    return run.message(
        state,
        LIBRARY,
        RETRIEVE,
        "\n".join(lines) or "Nothing was found.",
        attempt=0,
        order=-1,  # before all speakers
        evidence=listed(pool, keys[first:]),
        notes=tuple(f"a source failed: {error}" for error in origins.failed),
    )


def listed(pool: Mapping[str, Evidence], keys: Iterable[str]) -> tuple[JSON, ...]:
    """Return the pieces with these keys as in a message: without their texts."""
    return tuple({"title": pool[key]["title"], "origins": pool[key]["origins"]} for key in keys)


def evidence_of(documents: Iterable[Document], agent: str = "", round: int = 0) -> tuple[JSON, ...]:
    """Return documents as in a message, in their order."""
    from sottovoce.retrievers.pool import pool_of

    pools = [pool_of([document], agent, round) for document in documents]
    return tuple(each for pool in pools for each in listed(pool, pool))


def with_evidence(run: RunContext[Any], state: Discussion) -> Update:
    """Begin for agents that hear nobody: evidence replaces the question's documents."""
    if not run.settings.sources():
        return {}
    found = search(run, state, [Search(state["question"])])
    keys = numbers(run.settings, found, found.pool)
    return {
        "documents": passages(found.pool, keys),
        "board": [evidence_message(run, state, found.pool, keys, found)],
    }


def _passage(piece: Evidence) -> Passage:
    origin = piece["origins"][0]
    found = Passage(
        id=f"{origin['source']}:{origin['docid']}", title=piece["title"], text=piece["text"], source=origin["source"]
    )
    return {**found, "metadata": origin["metadata"]} if origin.get("metadata") else found


def _named(piece: Evidence) -> str:
    return f"{piece['title'] or piece['text'][:WIDTH]} ({'; '.join(map(_place, piece['origins']))})"


def _place(origin: Origin) -> str:
    """Return the place where a piece was found: "wiki:7, rank 2 for agent_1, year 1821"."""
    agent = f" for {origin['agent']}" if origin["agent"] else ""
    metadata = "".join(f", {name} {value}" for name, value in origin.get("metadata", {}).items())
    return f"{origin['source']}:{origin['docid']}, rank {origin['rank']}{agent}{metadata}"


# Libraries

BEST = 3
"""Number of passages on a page (SDE)."""


@runtime_checkable
class Wiki(Protocol):
    """A service that has whole pages."""

    def page(self, title: str) -> Piece | None:
        """Return the page of that title, or None if there is none."""

    def similar(self, query: str, n: int) -> list[str]:
        """Return up to `n` similar titles."""


class Articles:
    """A wiki as a library, read as in ReAct's code: paragraphs and lists count, section headings do not."""

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki

    def page(self, name: str) -> Page | None:
        """Return the page of that name in sentences, or None if there is none or it is a disambiguation page."""
        found = self._wiki.page(name)
        return Page(found.title, tuple(sentences(paragraphs(found.text)))) if found else None

    def similar(self, name: str, n: int) -> list[str]:
        """Return the titles that the wiki's own search finds."""
        return self._wiki.similar(name, n)


class FoundPassages:
    """A library of passages (SDE's world): a page has the best passages of a search; `documents` are the last found."""

    def __init__(self, retriever: Runnable[str, list[Document]]) -> None:
        self.documents: list[Document] = []
        self._retriever = retriever

    def page(self, name: str) -> Page | None:
        """Return the passages as one page, or None if the search finds none."""
        self.documents = self._retriever.invoke(name, k=BEST)
        texts = [each.page_content for each in self.documents]
        return Page(name, tuple(sentences("\n".join(texts)))) if texts else None

    def similar(self, name: str, n: int) -> list[str]:
        """Return no titles, since a search is not by title."""
        return []


def library_of(run: RunContext[Any], question: Question) -> Library:
    """Return the library of a run. Libraries other than the question's documents are opened once.

    Raises:
        UsageError: there is no such library, or it cannot be searched this way.
    """
    settings = run.settings
    if settings.library == DOCUMENTS and settings.search == "title":
        return Pages(_joined(_titled(question)))
    if settings.search == "passages":
        return FoundPassages(retriever_of(run, question, settings.library))
    return run.once(settings.library, lambda: _by_title(settings.library))


def retriever_of(run: RunContext[Any], question: Question, spec: str) -> Runnable[str, list[Document]]:
    """Return a retriever by name, or of the question's documents, with the run's reranker and filter.

    Raises:
        UsageError: the retriever cannot be opened, or the question has no documents.
    """
    from sottovoce.retrievers import open_retriever  # late: it may bring index libraries

    # Libraries use the plain name as key.
    retriever: PassageRetriever = (
        index_of(question) if spec == DOCUMENTS else run.once(f"retriever {spec}", lambda: open_retriever(spec))
    )
    if (rerank := run.settings.rerank) is not None:
        from sottovoce.retrievers.encoders import Reranked, open_reranker  # late: transformers

        retriever = Reranked(retriever, run.once(f"reranker {rerank}", lambda: open_reranker(rerank)))
    return retriever.bind(filter=run.settings.filter)


def _by_title(spec: str) -> Library:
    if spec == ENCYCLOPEDIA:
        return encyclopedia()
    from sottovoce.retrievers import open_retriever  # late: it may bring index libraries

    retriever = open_retriever(spec)
    if isinstance(retriever, Wiki):
        return Articles(retriever)
    raise UsageError(f"library {spec!r} finds passages, not pages by title; add `search='passages'`")


def index_of(question: Question) -> BM25Index:
    """Return a BM25 index of the question's own documents.

    Raises:
        UsageError: it has no documents.
    """
    from sottovoce.retrievers.bm25 import BM25Index
    from sottovoce.retrievers.passage import Passage as Piece

    titled = enumerate(_titled(question), 1)
    return BM25Index.build((Piece(str(number), text, title) for number, (title, text) in titled), source=DOCUMENTS)


def _titled(question: Question) -> list[tuple[str, str]]:
    passages = passages_of(question, None)
    if not passages:
        raise UsageError("the library is 'documents', but the question has none; add some, or use another library")
    return [(each.get("title") or f"Document {number}", each["text"]) for number, each in enumerate(passages, 1)]


def _joined(titled: Iterable[tuple[str, str]]) -> list[Page]:
    """Return one page for each title. Passages with the same title are joined, since data sets split articles."""
    pages: dict[str, Page] = {}
    for title, text in titled:
        before = pages.get(key(title), Page(title, ()))
        pages[key(title)] = before._replace(sentences=(*before.sentences, *sentences(text)))
    return list(pages.values())
