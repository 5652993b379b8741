"""Dense retrieval with FAISS: the passages whose vectors have the largest inner products with the query's.

An index has pyserini's layout, `index` and `docid` (one name per line), so pyserini can search our indexes,
and we can search pyserini's without Java. Ours also contain the passages, a manifest that names the encoder,
and the vector of a probe: an index cannot be searched with another encoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, Self

from langchain_core.embeddings import Embeddings

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.files import text_of
from sottovoce.core.validation import Checked
from sottovoce.retrievers.encoders import DEFAULT, DPRQuestions, SentenceEncoder
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.store import (
    AGAIN,
    PassageStore,
    digest_of,
    fingerprint,
    index_folder,
    paths_in,
    read_manifest,
    settings_of,
    write_whole,
)
from sottovoce.retrievers.vectors import INDEX, embedded, faiss_module, flat, mapped

NAME = "dense"
DOCIDS, PROBED = "docid", "probe.json"
PROBE = "Which river flows past the old mill?"
MIN_COSINE = 0.99
"""Lowest cosine between a probe's vectors by the same encoder on two machines."""


class DenseSettings(Checked):
    """The settings that an index depends on besides its passages."""

    encoder: str = DEFAULT
    """Encoder of the vectors: a name in `models list`, a directory, or the name given to an `Embeddings`."""
    query_prompt: str | None = None
    """Text before queries; None uses the prompt in the encoder's files."""
    passage_prompt: str | None = None

    def loaded(self, device: str = "auto") -> SentenceEncoder:
        """Return the sentence encoder of that name."""
        prompts = {"query_prompt": self.query_prompt, "passage_prompt": self.passage_prompt}
        return SentenceEncoder(self.encoder, device=device, **prompts)


class QueryEncoder(Protocol):
    """Any `Embeddings`, or an object that embeds only queries."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""


class Rows(Protocol):
    """Passages by their row in an index."""

    def __getitem__(self, row: int, /) -> Passage: ...


class DenseIndex:
    """A `Searcher` over vectors."""

    def __init__(self, vectors: Any, rows: Rows, encoder: QueryEncoder, fingerprint: str, source: str) -> None:
        """Take a faiss.Index by inner product and its passages; use `build`, `open` or `open_pyserini` instead."""
        self._vectors, self._rows, self._encoder = vectors, rows, encoder
        self.fingerprint, self.source = fingerprint, source

    @classmethod
    def build(cls, passages: Iterable[Passage], encoder: Embeddings, name: str, source: str = "corpus") -> Self:
        """Build an index in memory; `name` is the encoder's name.

        Raises:
            CorpusError: there are no passages, or vectors have different lengths or values that are not finite.
            UsageError: FAISS is not installed.
        """
        rows = list(passages)
        print_ = fingerprint(NAME, digest_of(rows), DenseSettings(encoder=name).model_dump())
        return cls(flat([embedded(rows, encoder)]), rows, encoder, print_, source)

    @classmethod
    def open(cls, folder: Path, encoder: QueryEncoder | None = None, source: str = "corpus") -> Self:
        """Open an index that `python cli.py data index` built, with memory-mapped vectors.

        Without `encoder`, the encoder that the index names is loaded.

        Raises:
            CorpusError: there is no index, it is damaged, or its vectors are those of another encoder.
            ModelError: the encoder is not available.
            UsageError: FAISS is not installed.
        """
        manifest = read_manifest(folder, NAME)
        settings = settings_of(folder, manifest, DenseSettings)
        vectors, passages = mapped(folder), PassageStore(folder)
        if (actual := (vectors.ntotal, len(passages))) != (manifest.passages, manifest.passages):
            raise CorpusError(
                f"index {str(folder)!r} has {actual} vectors and passages, not {manifest.passages}; {AGAIN}"
            )
        encoder = encoder or settings.loaded()
        _check_probe(folder, settings.encoder, encoder.embed_query(PROBE))
        return cls(vectors, passages, encoder, manifest.fingerprint, source)

    @classmethod
    def open_pyserini(cls, folder: Path, encoder: QueryEncoder, passages: PassageStore, source: str = "dpr") -> Self:
        """Open an index of pyserini; its passages are looked up by docid in the store of one of our indexes.

        Raises:
            CorpusError: there is no such index, or its vectors do not have the length of the encoder's.
            UsageError: FAISS is not installed.
        """
        vectors, docids = mapped(folder), _lines(folder / DOCIDS)
        if len(docids) != vectors.ntotal:
            raise CorpusError(f"index {str(folder)!r} has {vectors.ntotal} vectors and {len(docids)} docids")
        check_length(folder, vectors.d, encoder)
        return cls(vectors, ByDocid(docids, passages), encoder, "", source)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the `k` passages with the largest inner products; ties go to the lower row."""
        import numpy as np

        vector = np.array([self._encoder.embed_query(query)], dtype=np.float32)
        scores, rows = self._vectors.search(vector, min(k, self._vectors.ntotal))
        ranked = sorted((-float(score), int(row)) for score, row in zip(scores[0], rows[0], strict=True) if row >= 0)
        return [Hit(self._rows[row], -score) for score, row in ranked]


class ByDocid:
    """The passages of an index of pyserini, stored elsewhere."""

    def __init__(self, docids: Sequence[str], passages: PassageStore) -> None:
        """Take the docids of the index's rows, and the store of passages."""
        self._docids, self._passages = docids, passages

    def __getitem__(self, row: int) -> Passage:
        return self.find(self._docids[row])

    def find(self, docid: str) -> Passage:
        """Return the passage with this docid.

        Raises:
            CorpusError: there is no such passage.
        """
        if (passage := self._passages.find(docid)) is None:
            raise CorpusError(f"there is no passage {docid!r}: index and passages belong to different corpora")
        return passage


def open_dense(where: str) -> DenseIndex:
    """Open the index in a directory.

    Raises:
        UsageError: `where` is empty, there is no index in it, or FAISS is not installed.
    """
    folder = index_folder(where, NAME)
    return DenseIndex.open(folder, source=folder.name)


def open_dpr(where: str) -> DenseIndex:
    """Open a pyserini index, a question encoder, and one of our indexes with the passages, separated by commas.

    Raises:
        UsageError: `where` does not name three directories, one of them is not as expected, or FAISS is not installed.
    """
    if len(folders := paths_in(where)) != 3:
        raise UsageError(
            "dpr needs a pyserini index, a question encoder, and one of our indexes with the passages,"
            " e.g. dpr:wikipedia-dpr-100w,dpr-question_encoder-multiset-base,indexes/wiki"
        )
    index, encoder, passages = folders
    return DenseIndex.open_pyserini(index, DPRQuestions(str(encoder)), PassageStore(passages))


def check_length(folder: Path, length: int, encoder: QueryEncoder) -> None:
    """Check that an encoder's vectors have this length.

    Raises:
        CorpusError: they have another length.
    """
    if (actual := len(encoder.embed_query(PROBE))) != length:
        raise CorpusError(f"index {str(folder)!r} has vectors of {length} numbers, but the encoder's have {actual}")


def _check_probe(folder: Path, name: str, probe: Sequence[float]) -> None:
    import numpy as np

    try:
        saved = np.array(json.loads("".join(_lines(folder / PROBED))))
    except ValueError as error:
        raise CorpusError(f"{str(folder / PROBED)!r} cannot be read: {error}; {AGAIN}") from error
    vector = np.array(probe)
    if saved.shape != vector.shape or saved @ vector < MIN_COSINE * np.linalg.norm(saved) * np.linalg.norm(vector):
        raise CorpusError(
            f"the vectors of index {str(folder)!r} were made by an encoder other than this {name!r}; {AGAIN}"
        )


def _lines(file: Path) -> list[str]:
    try:
        return text_of(file).splitlines()
    except (OSError, ValueError) as error:
        raise CorpusError(f"{str(file)!r} cannot be read: {error}; {AGAIN}") from error


class DenseBuilder:
    """An `IndexBuilder` of vectors, which take 4 bytes per number: 1.5 kB per passage with the default encoder."""

    name = NAME

    def __init__(
        self, settings: DenseSettings | None = None, encoder: Embeddings | None = None, device: str = "auto"
    ) -> None:
        """Take the encoder that the settings name; without `encoder`, load a sentence encoder of that name."""
        faiss_module()  # raises now if FAISS is missing, not after all vectors are computed
        self.settings = settings or DenseSettings()
        self._encoder = encoder or self.settings.loaded(device)

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries that the index depends on."""
        return {name: version(name) for name in ("faiss-cpu", "transformers")}

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write the shard's vectors, and the docids of its rows."""
        import numpy as np

        np.save(_vectors(shards, number), embedded(passages, self._encoder))
        _docids(shards, number).write_text("".join(f"{passage.docid}\n" for passage in passages), encoding="utf-8")

    def finish(self, shards: Path, n: int, work: Path) -> None:
        """Write a flat index of all vectors, the docids, and the vector of the probe."""
        import numpy as np

        faiss, index = faiss_module(), flat(np.load(_vectors(shards, number)) for number in range(n))
        faiss.write_index(index, str(work / INDEX))
        with (work / DOCIDS).open("w", encoding="utf-8") as docids:
            for number in range(n):
                docids.write(_docids(shards, number).read_text(encoding="utf-8"))
        write_whole(work / PROBED, json.dumps(self._encoder.embed_query(PROBE)))


def _vectors(shards: Path, number: int) -> Path:
    return shards / f"vectors-{number:05}.npy"


def _docids(shards: Path, number: int) -> Path:
    return shards / f"docids-{number:05}.txt"
