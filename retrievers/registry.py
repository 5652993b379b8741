"""The retrievers by name; `RETRIEVERS.register` adds one, and so does an entry point of "sottovoce.retrievers".

What is registered takes what stands behind the colon of `bm25:path/to/index` (empty where nothing does) and returns a
`Searcher`; or it is a LangChain retriever or vector store itself. Importing this loads no LangChain: the command line
lists the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sottovoce.registry import Registry
from sottovoce.retrievers.passage import MOST, Searcher

if TYPE_CHECKING:
    from sottovoce.retrievers.retriever import PassageRetriever

RETRIEVERS: Registry[Any] = Registry(  # Any: Callable[[str], Searcher], or what LangChain has
    "retriever",
    "sottovoce.retrievers",
    {
        "bm25": "sottovoce.retrievers.bm25:open_bm25",
        "dense": "sottovoce.retrievers.dense:open_dense",
        "dpr": "sottovoce.retrievers.dense:open_dpr",
        "lucene": "sottovoce.retrievers.lucene:open_lucene",
        "pyserini": "sottovoce.retrievers.pyserini:open_pyserini",
        "google": "sottovoce.retrievers.google:open_google",
        "wikipedia": "sottovoce.retrievers.wikipedia:open_wikipedia",
        "trec": "sottovoce.retrievers.trec:open_trec",
        "hybrid": "sottovoce.retrievers.fusion:open_hybrid",
        "encyclopedia": "sottovoce.environments.encyclopedia.index:open_encyclopedia",
    },
)

register_retriever = RETRIEVERS.register
"""Make a way to open a searcher usable by name."""


class About(NamedTuple):
    """What is told of a retriever."""

    spec: str
    """How it is opened."""
    searches: str
    needs: str = ""
    """An extra, or a variable of the environment."""


DENSE, PYSERINI, CONTACT = "extra dense", "extra pyserini", "SOTTOVOCE_CONTACT, your mail or page"
ABOUT: Mapping[str, About] = {
    each.spec.partition(":")[0]: each
    for each in (
        About("encyclopedia", "the encyclopedia that ships, by shared words; of another seed as encyclopedia:SEED"),
        About("bm25:FOLDER", "an index of shared words, mapped from disk, in this process"),
        About(
            "dense:FOLDER", "an index of meanings: vectors of a sentence encoder (`models pull minilm`), FAISS", DENSE
        ),
        About("lucene:FOLDER", "an index of Lucene's, ours or Anserini's: for corpora larger than memory", PYSERINI),
        About("pyserini:NAME", "a prebuilt Lucene index, which `index --prebuilt NAME` downloads", PYSERINI),
        About("dpr:INDEX,ENCODER,PASSAGES", "pyserini's vectors by a DPR encoder; texts are an index's of ours", DENSE),
        About(
            "wikipedia", "MediaWiki's search: the beginnings of articles; wikipedia:de is another language's", CONTACT
        ),
        About("google", "Google through SerpAPI: snippets; google:FOLDER keeps what was found", "SERPAPI_API_KEY"),
        About("trec:RUN,TOPICS,INDEX", "what a TREC run file lists for each query; texts are an index's of ours"),
        About("hybrid:A,B", "several of them, joined by reciprocal ranks"),
    )
}
"""Ours by name; `python cli.py index` makes the folders."""
IN_PYTHON = About("PACKAGE.MODULE:NAME", "a LangChain retriever or vector store in Python, whose module runs")


def described() -> list[About]:
    """All retrievers, those of other packages by their names alone."""
    return [*ABOUT.values(), IN_PYTHON, *(About(name, "") for name in RETRIEVERS if name not in ABOUT)]


def open_retriever(spec: Any, k: int = MOST) -> PassageRetriever:  # Any: a text, or see `open_searcher`
    """Return the retriever that `NAME` or `NAME:WHERE` says: `bm25:indexes/wiki`, `google`; or one over an object.

    Raises:
        UsageError: no retriever has that name, its extra is not installed, or there is no such index.
    """
    from sottovoce.retrievers.retriever import PassageRetriever  # late: it imports LangChain

    return PassageRetriever(searcher=open_searcher(spec), k=k)


def open_searcher(source: Any) -> Searcher:  # Any: a text, or what LangChain has
    """Return what that retriever searches with; a LangChain retriever or vector store may be given itself.

    A dotted name, `package.module:attribute`, imports that module: only whoever starts the process may give it.

    Raises:
        UsageError: as `open_retriever`.
    """
    if not isinstance(source, str):
        return _searcher(source, "retriever")
    name, _, where = source.partition(":")
    if name in RETRIEVERS:
        thing = RETRIEVERS[name]
        return _searcher(thing(where) if callable(thing) else thing, name)
    from sottovoce.retrievers.foreign import DOTTED, imported  # late: it imports LangChain

    if "." in name and DOTTED.fullmatch(source):
        return _searcher(imported(source, "a retriever"), source)
    found: Searcher = RETRIEVERS[name]  # tells which there are
    return found


def _searcher(thing: Any, source: str) -> Searcher:  # Any: as it was given
    from sottovoce.retrievers.foreign import searcher_of  # late: it imports LangChain

    return searcher_of(thing, source)
