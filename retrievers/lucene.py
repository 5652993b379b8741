"""BM25 by Lucene, through pyserini: for corpora that do not fit into memory, and for pyserini's prebuilt indexes.

An index is one that `python cli.py data index --retriever lucene` built, or any Lucene index of Anserini with
raw documents. Scores differ from those of `bm25` because Lucene stores lengths in one byte (exact below
40 terms) and Anserini rounds scores to four decimal places.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from sottovoce.core.errors import CorpusError, RetrievalError, UsageError
from sottovoce.core.validation import Checked
from sottovoce.retrievers import jvm
from sottovoce.retrievers.corpus import metadata_of
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.store import AGAIN, FILE, index_folder, read_index

NAME = "lucene"
FOLDER = "lucene"
"""Subdirectory of our indexes with Lucene's files."""
MOST_TERMS = 2**31 - 1
"""Limit on the terms of a query; Lucene's default is 1,024, but a query may be a whole reply."""


class LuceneSettings(Checked):
    """The settings that an index depends on besides its passages; k1 and b are applied when it is searched."""

    analyzer: str = "english"
    """Anserini's default: Porter's stemmer and Lucene's stop words."""
    k1: float = Field(default=0.9, ge=0)
    """How slowly the weight of repeated terms saturates."""
    b: float = Field(default=0.4, ge=0, le=1)
    """How strongly long passages are penalized, in [0, 1]."""


class LuceneIndex:
    """A `Searcher` over pyserini's LuceneSearcher."""

    def __init__(self, searcher: Any, fingerprint: str, source: str) -> None:
        """Take a searcher of pyserini; use `open` or `open_pyserini` instead."""
        self._searcher = searcher  # Any: pyserini has no types
        self.fingerprint, self.source = fingerprint, source

    @classmethod
    def open(cls, folder: Path, source: str = "corpus") -> Self:
        """Open one of our indexes, or one of Anserini's.

        Raises:
            CorpusError: there is no index, it belongs to another retriever, or it was built with another analyzer.
            UsageError: pyserini or Java is missing, or Java is too old.
        """
        if (folder / FILE).exists():
            manifest, settings = read_index(folder, NAME, LuceneSettings)
            fingerprint, where = manifest.fingerprint, folder / FOLDER
            passages: int | None = manifest.passages
            if settings.analyzer != (expected := LuceneSettings().analyzer):
                analyzers = f"analyzer {settings.analyzer!r}, not {expected!r}"
                raise CorpusError(f"index {str(folder)!r} was built with {analyzers}; {AGAIN}")
        else:
            settings, fingerprint, where, passages = LuceneSettings(), "", folder, None
        if not any(where.glob("segments_*")):
            raise CorpusError(f"there is no Lucene index in {str(where)!r}; {AGAIN} --retriever lucene")
        return cls(lucene_searcher(where, settings, passages), fingerprint, source)

    @jvm.alone
    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` passages; none for a query of stop words."""
        import jnius

        try:
            hits = self._searcher.search(query, k)
        except jnius.JavaException as error:
            raise RetrievalError(f"lucene cannot search for {query[:80]!r}: {jvm.message(error)}") from error
        return [Hit(_passage(hit.docid, hit.lucene_document.get("raw")), float(hit.score)) for hit in hits]


def open_lucene(where: str) -> LuceneIndex:
    """Open the index in a directory."""
    folder = index_folder(where, NAME)
    return LuceneIndex.open(folder, folder.name)


@jvm.alone
def lucene_searcher(where: Path, settings: LuceneSettings, passages: int | None = None) -> Any:  # Any: no types
    """Return pyserini's LuceneSearcher for a directory of Lucene's, checking its number of passages unless None."""
    with jvm.pyserini():
        import jnius
        from pyserini.search.lucene import LuceneSearcher

        try:
            searcher = LuceneSearcher(str(where))
        except jnius.JavaException as error:
            raise CorpusError(f"Lucene index {str(where)!r} cannot be read: {jvm.message(error)}; {AGAIN}") from error
        jnius.autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(MOST_TERMS)
    if passages not in (None, searcher.num_docs):
        raise CorpusError(f"Lucene index {str(where)!r} has {searcher.num_docs} passages, not {passages}; {AGAIN}")
    searcher.set_bm25(settings.k1, settings.b)
    return searcher


def _passage(docid: str, raw: str | None) -> Passage:
    """Return a stored document: JSON of pyserini's or ours, whose contents may start with a quoted title."""
    if raw is None:
        raise RetrievalError(f"passage {docid!r} was not stored raw: use an index that was built with -storeRaw")
    try:
        content = json.loads(raw)
    except ValueError:
        content = {}
    fields = content if isinstance(content, dict) else {}
    title, text = _titled(str(fields.get("contents", raw)))
    return Passage(docid, fields.get("text", text), fields.get("title", title), fields.get("url"), metadata_of(fields))


def _titled(contents: str) -> tuple[str, str]:
    """Split contents of pyserini's prebuilt indexes into title and text: the title is quoted, on its own line."""
    first, _, rest = contents.partition("\n")
    return (first[1:-1], rest) if rest and first.startswith('"') and first.endswith('"') else ("", contents)


INDEXER_HEAP = "2g"
INDEXER = "io.anserini.index.IndexCollection"


class LuceneBuilder:
    """An `IndexBuilder` for Lucene. It indexes in one thread, so that equal scores are ordered as in the corpus."""

    name = NAME
    packages: tuple[str, ...] = ("pyserini",)

    def __init__(self, settings: LuceneSettings | None = None) -> None:
        """Check at once that Java and pyserini are available."""
        self.settings = settings or LuceneSettings()
        self._java, self._jar = jvm.java_home() / "bin" / "java", jvm.anserini()

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write the shard as pyserini's JSON, with title, text, URL and metadata besides the contents."""
        with (shards / f"passages-{number:05}.jsonl").open("w", encoding="utf-8") as file:
            for p in passages:
                fields = {"id": p.docid, "contents": p.contents, "title": p.title, "text": p.text, "url": p.url}
                file.write(json.dumps({**fields, "metadata": dict(p.metadata)}) + "\n")

    def finish(self, shards: Path, n: int, work: Path) -> None:
        """Index all shards in a separate JVM, whose output is used only for an error message."""
        shutil.rmtree(work / FOLDER, ignore_errors=True)  # left by an interrupted call
        command = [str(self._java), f"-Xmx{INDEXER_HEAP}", "-cp", str(self._jar), *jvm.LOGGING]
        command += [INDEXER, "-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"]
        command += ["-input", str(shards), "-index", str(work / FOLDER), "-threads", "1", "-storeRaw"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except OSError as error:
            raise UsageError(f"Java cannot be started: {error}; {jvm.REMEDY}") from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise CorpusError(f"Lucene's indexer ended with {done.returncode}: {' '.join(last) or 'no output'}")
