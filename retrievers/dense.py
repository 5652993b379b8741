"""Dense retrieval with FAISS: the passages whose vectors have the largest inner products with the query's.

An index has pyserini's layout, `index` and `docid` (one name per line), so pyserini can search our indexes,
and we can search pyserini's without Java. Ours also contain the passages, a manifest that names the encoder,
and the vector of a probe: an index cannot be searched with another encoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from langchain_core.embeddings import Embeddings

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.regular_files import text_of
from sottovoce.core.validation import Checked
from sottovoce.retrievers.encoders import DEFAULT, DPRQuestions, SentenceEncoder
from sottovoce.retrievers.manifest import AGAIN, fingerprint, read_manifest
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.store import PassageStore, digest_of
from sottovoce.retrievers.vectors import embedded, flat, mapped

NAME = "dense"
DOCIDS, PROBED = "docid", "probe.json"
PROBE = "Which river flows past the old mill?"
ALIKE = 0.99
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
        kept = list(passages)
        print_ = fingerprint(NAME, digest_of(kept), DenseSettings(encoder=name).model_dump())
        return cls(flat([embedded(kept, encoder)]), kept, encoder, print_, source)

    @classmethod
    def open(cls, folder: Path, encoder: QueryEncoder | None = None, source: str = "corpus") -> Self:
        """Open an index that `python cli.py data index` built, with memory-mapped vectors.

        Raises:
        Without `encoder`, the encoder that the index names is loaded.

            CorpusError: there is no index, it is damaged, or its vectors are those of another encoder.
            ModelError: the encoder is not available.
            UsageError: FAISS is not installed.
        """
        manifest = read_manifest(folder, NAME)
        try:
            settings = DenseSettings.model_validate(manifest.settings)
        except UsageError as error:
            raise CorpusError(f"index {str(folder)!r} was built differently: {error}; {AGAIN}") from error
        vectors, passages = mapped(folder), PassageStore(folder)
        if (found := (vectors.ntotal, len(passages))) != (manifest.passages, manifest.passages):
            raise CorpusError(
                f"index {str(folder)!r} has {found} vectors and passages, not {manifest.passages}; {AGAIN}"
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
        found = [(float(score), int(row)) for score, row in zip(scores[0], rows[0], strict=True) if row >= 0]
        return [Hit(self._rows[row], score) for score, row in sorted(found, key=lambda each: (-each[0], each[1]))]


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
        if (found := self._passages.find(docid)) is None:
            raise CorpusError(f"there is no passage {docid!r}: index and passages belong to different corpora")
        return found


def open_dense(where: str) -> DenseIndex:
    """Open the index in a directory.

    Raises:
        UsageError: `where` is empty, there is no index in it, or FAISS is not installed.
    """
    if not where:
        raise UsageError("dense needs the directory of an index, e.g. dense:indexes/wiki")
    folder = Path(where).expanduser()
    return DenseIndex.open(folder, source=folder.name)


def open_dpr(where: str) -> DenseIndex:
    """Open a pyserini index, a question encoder, and one of our indexes with the passages, separated by commas.

    Raises:
        UsageError: `where` does not name three directories, one of them is not as expected, or FAISS is not installed.
    """
    if len(folders := [each.strip() for each in where.split(",") if each.strip()]) != 3:
        raise UsageError(
            "dpr needs a pyserini index, a question encoder, and one of our indexes with the passages,"
            " e.g. dpr:wikipedia-dpr-100w,dpr-question_encoder-multiset-base,indexes/wiki"
        )
    index, encoder, passages = (Path(each).expanduser() for each in folders)
    return DenseIndex.open_pyserini(index, DPRQuestions(str(encoder)), PassageStore(passages))


def check_length(folder: Path, length: int, encoder: QueryEncoder) -> None:
    """Check that an encoder's vectors have this length.

    Raises:
        CorpusError: they have another length.
    """
    if (found := len(encoder.embed_query(PROBE))) != length:
        raise CorpusError(f"index {str(folder)!r} has vectors of {length} numbers, but the encoder's have {found}")


def _check_probe(folder: Path, name: str, found: Sequence[float]) -> None:
    import numpy as np

    try:
        kept = np.array(json.loads("".join(_lines(folder / PROBED))))
    except ValueError as error:
        raise CorpusError(f"{str(folder / PROBED)!r} cannot be read: {error}; {AGAIN}") from error
    vector = np.array(found)
    if kept.shape != vector.shape or kept @ vector < ALIKE * np.linalg.norm(kept) * np.linalg.norm(vector):
        raise CorpusError(
            f"the vectors of index {str(folder)!r} were made by an encoder other than this {name!r}; {AGAIN}"
        )


def _lines(file: Path) -> list[str]:
    try:
        return text_of(file).splitlines()
    except (OSError, ValueError) as error:
        raise CorpusError(f"{str(file)!r} cannot be read: {error}; {AGAIN}") from error
