"""Indexes of pyserini: its prebuilt Lucene indexes by name, and its FAISS indexes with DPR's question encoder.

`pyserini:NAME` searches a prebuilt Lucene index with stored passages, e.g. `wikipedia-dpr-100w`. Only
`python cli.py data index --prebuilt NAME` downloads one, since they take gigabytes.
`dpr:INDEX,ENCODER,PASSAGES` searches a FAISS index without Java, with passages from one of our indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sottovoce.core.errors import CorpusError, RetrievalError, UsageError, command, nearest
from sottovoce.retrievers import jvm
from sottovoce.retrievers.dense import DOCIDS, PROBE, DenseIndex, lines_of, mapped
from sottovoce.retrievers.encoders import DPRQuestions
from sottovoce.retrievers.lucene import LuceneIndex, LuceneSettings, lucene_searcher
from sottovoce.retrievers.passage import Passage, Searcher
from sottovoce.retrievers.store import PassageStore, paths_in


class PassagesByDocid:
    """The passages of a pyserini index by row, which are stored in one of our indexes."""

    def __init__(self, docids: Sequence[str], passages: PassageStore) -> None:
        """Take the docids of the index's rows, and the store of passages."""
        self._docids, self._passages = docids, passages

    def __getitem__(self, row: int) -> Passage:
        if (passage := self._passages.find(docid := self._docids[row])) is None:
            raise CorpusError(f"there is no passage {docid!r}: index and passages belong to different corpora")
        return passage


def open_dpr(where: str) -> DenseIndex:
    """Open a pyserini index, a question encoder, and one of our indexes with the passages, separated by commas.

    Raises:
        CorpusError: docids, vectors, encoder and passages do not fit each other.
        UsageError: `where` does not name three directories, one of them is not as expected, or FAISS is not installed.
    """
    if len(paths := paths_in(where)) != 3:
        raise UsageError(
            "dpr needs a pyserini index, a question encoder, and one of our indexes with the passages,"
            " e.g. dpr:wikipedia-dpr-100w,dpr-question_encoder-multiset-base,indexes/wiki"
        )
    folder, encoder, passages = paths[0], DPRQuestions(str(paths[1])), PassageStore(paths[2])
    vectors, docids = mapped(folder), lines_of(folder / DOCIDS)
    if len(docids) != vectors.ntotal:
        raise CorpusError(f"index {str(folder)!r} has {vectors.ntotal} vectors and {len(docids)} docids")
    if (length := len(encoder.embed_query(PROBE))) != vectors.d:
        raise CorpusError(f"index {str(folder)!r} has vectors of {vectors.d} numbers, but the encoder's have {length}")
    return DenseIndex(vectors, PassagesByDocid(docids, passages), encoder, "", "dpr")


def open_pyserini(where: str) -> Searcher:
    """Open a prebuilt index by name; three names separated by commas are opened as `open_dpr` does."""
    if len(paths_in(where)) == 3:
        return open_dpr(where)
    if not (name := where.strip(" ,")) or "," in name:
        raise UsageError("pyserini needs a prebuilt index, e.g. pyserini:wikipedia-dpr-100w")
    if (folder := prebuilt_folder(name)) is None:
        size = _prebuilt(name)[0]["size compressed (bytes)"]
        raise UsageError(
            f"pyserini's index {name!r} is not on this machine; to download it ({size / 1e9:.1f} GB), run"
            f" {command('data', 'index', '--prebuilt', name)}"
        )
    return LuceneIndex(lucene_searcher(folder, LuceneSettings()), "", name)


def prebuilt_folder(name: str) -> Path | None:
    """Return the directory of a prebuilt index, or None if it was not downloaded."""
    info, cache = _prebuilt(name)
    files = {str(info.get("filename") or ""), *(url.split("/")[-1] for url in info["urls"])}
    stems = sorted({file.split(".tar")[0] for file in files} - {""})
    folders = (cache / "indexes" / f"{stem}.{info['md5']}" for stem in stems)
    return next((folder for folder in folders if folder.is_dir()), None)


def download(name: str) -> Path:
    """Return the directory of a prebuilt index; download it if necessary and check its digest.

    Raises:
        UsageError: pyserini has no index of this name, or cannot be run.
        RetrievalError: it cannot be downloaded.
    """
    _prebuilt(name)
    try:
        return _fetched(name)
    except (OSError, ValueError, AssertionError) as error:
        raise RetrievalError(f"pyserini's index {name!r} cannot be downloaded: {error}") from error


@jvm.alone
def _fetched(name: str) -> Path:
    with jvm.pyserini():
        from pyserini.util import download_prebuilt_index

        return Path(download_prebuilt_index(name, verbose=False))


@jvm.alone
def _prebuilt(name: str) -> tuple[dict[str, Any], Path]:  # Any: pyserini's table
    """Return pyserini's description of a prebuilt index, and its cache folder."""
    with jvm.pyserini():
        from pyserini.prebuilt_index_info import TF_INDEX_INFO
        from pyserini.util import get_cache_home
    if name not in TF_INDEX_INFO:
        raise UsageError(nearest("prebuilt index", name, TF_INDEX_INFO))
    return TF_INDEX_INFO[name], Path(get_cache_home())
