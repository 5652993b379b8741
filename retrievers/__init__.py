"""Retrieval of passages that match a question, from indexes on disk and from services, and the retrievers by name.

`RETRIEVERS.register` adds a retriever, as does an entry point of "sottovoce.retrievers". An entry is a function that
takes the part after the colon of `bm25:path/to/index` (empty without a colon) and returns a LangChain retriever or
vector store, or it is one. Importing this package loads no index library, torch, Java or LangChain: each is
loaded when needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sottovoce.core.any_types import Untyped
from sottovoce.core.registry import Registry
from sottovoce.retrievers.passage import DEFAULT_K, Hit, Passage

if TYPE_CHECKING:
    from sottovoce.retrievers.retriever import PassageRetriever

__all__ = ["Hit", "Passage", "PassageRetriever", "open_retriever"]

RETRIEVERS: Registry[Untyped] = Registry(
    "retriever",
    "sottovoce.retrievers",
    {
        "bm25": "sottovoce.retrievers.bm25:open_bm25",
        "dense": "sottovoce.retrievers.dense:open_dense",
        "dpr": "sottovoce.retrievers.pyserini:open_dpr",
        "pyserini": "sottovoce.retrievers.pyserini:open_pyserini",
        "google": "sottovoce.retrievers.google:open_google",
        "wikipedia": "sottovoce.retrievers.wikipedia:open_wikipedia",
        "encyclopedia": "sottovoce.environments.encyclopedia:open_encyclopedia",
    },
)

register_retriever = RETRIEVERS.register
"""Register a function that opens a retriever, or a LangChain retriever or vector store, under a name."""


class About(NamedTuple):
    """Description of a retriever."""

    spec: str
    """Text that opens it."""
    searches: str
    needs: str = ""
    """An extra, or an environment variable."""


DENSE, PYSERINI, CONTACT = "extra dense", "extra pyserini", "SOTTOVOCE_CONTACT, your email address or web page"
ABOUT: Mapping[str, About] = {
    each.spec.partition(":")[0]: each
    for each in (
        About("encyclopedia", "the bundled encyclopedia, by shared words"),
        About("bm25:FOLDER", "a BM25 index (shared words), memory-mapped in this process"),
        About("dense:FOLDER", "a FAISS index of a sentence encoder's vectors (`models pull minilm`)", DENSE),
        About("pyserini:NAME", "a Lucene index: a folder, or a prebuilt one (`data index --prebuilt NAME`)", PYSERINI),
        About(
            "dpr:INDEX,ENCODER,PASSAGES", "pyserini's vectors with a DPR encoder; texts of one of our indexes", DENSE
        ),
        About("wikipedia", "MediaWiki's search: introductions of articles; wikipedia:de for another language", CONTACT),
        About("google", "Google through SerpAPI: snippets; google:FOLDER saves the results", "SERPAPI_API_KEY"),
    )
}
"""Built-in retrievers by name; `python cli.py data index` builds the directories of indexes."""
IN_PYTHON = About("PACKAGE.MODULE:NAME", "a LangChain retriever or vector store in Python; its module is run")


def described() -> list[About]:
    """Return all retrievers; retrievers of other packages have only a name."""
    return [*ABOUT.values(), IN_PYTHON, *(About(name, "") for name in RETRIEVERS if name not in ABOUT)]


def open_retriever(spec: Untyped, k: int = DEFAULT_K) -> PassageRetriever:
    """Return the retriever for `NAME` or `NAME:WHERE`, e.g. `bm25:indexes/wiki` or `google`.

    `spec` may also be a LangChain retriever or vector store, or the dotted name of one, `package.module:attribute`.
    The latter imports that module: only the person who starts the process may give it.

    Raises:
        UsageError: no retriever has this name, its extra is not installed, or there is no such index.
    """
    from sottovoce.retrievers.retriever import DOTTED, imported, retriever_over  # imported late: it loads LangChain

    source, thing = "retriever", spec
    if isinstance(spec, str):
        source, _, where = spec.partition(":")
        if source not in RETRIEVERS and "." in source and DOTTED.fullmatch(spec):
            source, thing = spec, imported(spec, "a retriever")
        else:
            entry = RETRIEVERS[source]
            thing = entry(where) if callable(entry) else entry
    retriever = retriever_over(thing, source).model_copy()
    retriever.k = k
    return retriever


def __getattr__(name: str) -> Any:  # Any: a class
    if name != "PassageRetriever":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sottovoce.retrievers.retriever import PassageRetriever  # late: LangChain, which the command line does not need

    return PassageRetriever
