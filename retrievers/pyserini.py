"""Pyserini's own searchers: its prebuilt Lucene indexes by name, and its FaissSearcher.

`pyserini:NAME` searches a prebuilt Lucene index with stored passages, e.g. `wikipedia-dpr-100w`. Only
`python cli.py data index --prebuilt NAME` downloads one, since they take gigabytes.
`pyserini:INDEX,ENCODER,PASSAGES` is `dpr:` with pyserini's code and a JVM; both find the same passages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.core.errors import CorpusError, RetrievalError, UsageError, command, nearest
from sottovoce.retrievers import jvm
from sottovoce.retrievers.dense import ByDocid, check_length
from sottovoce.retrievers.encoders import DPRQuestions
from sottovoce.retrievers.lucene import LuceneIndex, LuceneSettings, lucene_searcher
from sottovoce.retrievers.passage import Hit
from sottovoce.retrievers.store import PassageStore, paths_in
from sottovoce.retrievers.vectors import mapped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.retrievers.passage import Searcher


class PyseriniDense:
    """A `Searcher` over pyserini's FaissSearcher, with passages from one of our indexes."""

    fingerprint = ""

    def __init__(self, folder: Path, encoder: DPRQuestions, passages: PassageStore, source: str = "dpr") -> None:
        """Load the index into memory.

        Raises:
            CorpusError: there is no such index, or its vectors do not have the length of the encoder's.
            ModelError: the encoder is not available.
            UsageError: pyserini or Java is missing, or Java is too old.
        """
        if not (folder / "index").is_file() or not (folder / "docid").is_file():
            raise CorpusError(f"there is no FAISS index of pyserini in {str(folder)!r}: expected files index and docid")
        check_length(folder, mapped(folder).d, encoder)
        self._searcher = _faiss_searcher(folder, encoder)
        self._texts, self.source = ByDocid(self._searcher.docids, passages), source

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the `k` passages with the largest inner products."""
        hits = self._searcher.search(query, min(k, self._searcher.num_docs))
        return [Hit(self._texts.find(hit.docid), float(hit.score)) for hit in hits]


@jvm.alone
def _faiss_searcher(folder: Path, encoder: DPRQuestions) -> Any:  # Any: pyserini has no types
    with jvm.pyserini():
        from pyserini.search.faiss import FaissSearcher

        return FaissSearcher(str(folder), _Encode(encoder))


class _Encode:
    """An encoder object for pyserini, which would choose a class by the name if it got a path."""

    def __init__(self, encoder: DPRQuestions) -> None:
        self._encoder = encoder

    def encode(self, query: str) -> NDArray[np.float32]:
        import numpy as np

        return np.array(self._encoder.embed_query(query), dtype=np.float32)


def open_pyserini(where: str) -> Searcher:
    """Open a prebuilt index by name, or an index, an encoder and passages, separated by commas.

    Raises:
        UsageError: `where` is neither, the index was not downloaded, or pyserini cannot be run.
    """
    paths = paths_in(where)
    if len(paths) == 3:
        index, encoder, passages = paths
        return PyseriniDense(index, DPRQuestions(str(encoder)), PassageStore(passages))
    if len(paths) != 1:
        raise UsageError(
            "pyserini needs a prebuilt index, or a FAISS index with an encoder and passages,"
            " e.g. pyserini:wikipedia-dpr-100w, or pyserini:INDEX,ENCODER,PASSAGES"
        )
    name = where.strip(" ,")
    if (folder := prebuilt_folder(name)) is None:
        size = _prebuilt(name)["size compressed (bytes)"]
        raise UsageError(
            f"pyserini's index {name!r} is not on this machine; to download it ({size / 1e9:.1f} GB), run"
            f" {command('data', 'index', '--prebuilt', name)}"
        )
    return LuceneIndex(lucene_searcher(folder, LuceneSettings()), "", name)


def prebuilt_folder(name: str) -> Path | None:
    """Return the directory of a prebuilt index, or None if it was not downloaded.

    Raises:
        UsageError: pyserini has no index of this name, or cannot be run.
    """
    info = _prebuilt(name)
    names = {
        str(info.get("filename") or "").split(".tar")[0],
        *(url.split("/")[-1].split(".tar")[0] for url in info["urls"]),
    }
    folders = (_cache() / "indexes" / f"{stem}.{info['md5']}" for stem in sorted(names) if stem)
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
def _cache() -> Path:
    with jvm.pyserini():
        from pyserini.util import get_cache_home
    return Path(get_cache_home())


@jvm.alone
def _prebuilt(name: str) -> dict[str, Any]:  # Any: pyserini's table
    with jvm.pyserini():
        from pyserini.prebuilt_index_info import TF_INDEX_INFO
    if name not in TF_INDEX_INFO:
        raise UsageError(nearest("prebuilt index", name, TF_INDEX_INFO))
    info: dict[str, Any] = TF_INDEX_INFO[name]
    return info
