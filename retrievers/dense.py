"""Dense retrieval with FAISS: the passages whose vectors have the largest inner products with the query's.

An index has pyserini's layout, `index` and `docid` (one name per line), so pyserini can search our indexes,
and we can search pyserini's without Java. Ours also contain the passages, and a manifest that names the encoder.
Passages are encoded in shards that survive a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from langchain_core.embeddings import Embeddings

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import CorpusError, RetrievalError, UsageError, first_line
from sottovoce.core.validation import Checked
from sottovoce.retrievers.encoders import DEFAULT, SentenceEncoder
from sottovoce.retrievers.index import AGAIN, PassageStore, index_folder, read_index
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.retriever import PassageRetriever

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    """Shape (passage, number)."""

NAME = "dense"
INDEX, DOCIDS = "index", "docid"
"""Names of the files, which are pyserini's."""
PROBE = "Which river flows past the old mill?"


class DenseSettings(Checked):
    """The settings that an index depends on besides its passages."""

    encoder: str = DEFAULT
    """Encoder of the vectors: a name in `models list`, a directory, or the name given to an `Embeddings`."""
    query_prompt: str | None = None
    """Text before queries; None uses the prompt in the encoder's files."""
    passage_prompt: str | None = None

    def loaded(self, device: str | None = None) -> SentenceEncoder:
        """Return the sentence encoder of that name."""
        prompts = {"query_prompt": self.query_prompt, "passage_prompt": self.passage_prompt}
        return SentenceEncoder(self.encoder, device=device, **prompts)


class QueryEncoder(Protocol):
    """Any `Embeddings`, or an object that embeds only queries."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""


PassageAt = Callable[[int], Passage]
"""Function that returns the passage in a row of an index."""


class DenseIndex(PassageRetriever):
    """A retriever by vectors."""

    _vectors: Any
    _passage_at: PassageAt
    _encoder: QueryEncoder

    def __init__(self, vectors: Any, passage_at: PassageAt, encoder: QueryEncoder, source: str) -> None:
        """Take a faiss.Index by inner product and its passages; use `build` or `open` instead."""
        super().__init__(source=source)
        self._vectors, self._passage_at, self._encoder = vectors, passage_at, encoder

    @classmethod
    def build(cls, passages: Iterable[Passage], encoder: Embeddings, source: str = "corpus") -> Self:
        """Build an index in memory.

        Raises:
            CorpusError: there are no passages, or vectors have different lengths or values that are not finite.
            UsageError: FAISS is not installed.
        """
        rows = list(passages)
        return cls(flat([embedded(rows, encoder)] if rows else []), rows.__getitem__, encoder, source)

    @classmethod
    def open(cls, folder: Path, encoder: QueryEncoder | None = None, source: str = "corpus") -> Self:
        """Open an index that `python cli.py data index` built, with memory-mapped vectors.

        Without `encoder`, the encoder that the index names is loaded.

        Raises:
            CorpusError: there is no index, it is damaged, or another encoder made its vectors.
            ModelError: the encoder is not available.
            UsageError: FAISS is not installed.
        """
        passages, settings = read_index(folder, NAME, DenseSettings)
        vectors, encoder = mapped(folder), encoder or settings.loaded()
        check_fit(folder, vectors, len(passages), encoder)
        return cls(vectors, passages.__getitem__, encoder, source)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the `k` passages with the largest inner products; ties go to the lower row."""
        import numpy as np

        if k < 1:
            raise UsageError(f"k is {k}; expected at least 1")
        vector = np.array([self._encoder.embed_query(query)], dtype=np.float32)
        if vector.shape != (1, self._vectors.d) or not np.isfinite(vector).all():
            found = f"the encoder returned {vector.size} numbers for a query, or values that are not finite"
            raise RetrievalError(f"{found}; the index {self.source!r} needs {self._vectors.d}: use its own encoder")
        asked = k = min(k, self._vectors.ntotal)
        while True:  # up to all ties with the last of the `k` best: FAISS returns any of the tied rows
            asked = min(2 * asked, self._vectors.ntotal)
            (scores,), (rows,) = self._vectors.search(vector, asked)
            if asked == self._vectors.ntotal or rows[-1] < 0 or scores[k - 1] > scores[-1]:
                break
        ranked = sorted((-float(score), int(row)) for score, row in zip(scores, rows, strict=True) if row >= 0)
        return [Hit(self._passage_at(row), -score) for score, row in ranked[:k]]


def open_dense(where: str) -> DenseIndex:
    """Open the index in a directory."""
    folder = index_folder(where, NAME)
    return DenseIndex.open(folder, source=folder.name)


def check_fit(folder: Path, vectors: Any, passages: int, encoder: QueryEncoder) -> None:  # Any: as for `flat`
    """Check that an index has a vector for each passage, as long as its encoder's."""
    if vectors.ntotal != passages:
        raise CorpusError(f"index {str(folder)!r} has {vectors.ntotal} vectors and {passages} passages")
    if (length := len(encoder.embed_query(PROBE))) != vectors.d:
        raise CorpusError(f"index {str(folder)!r} has vectors of {vectors.d} numbers, but the encoder's have {length}")


def embedded(passages: Sequence[Passage], encoder: Embeddings) -> Vectors:
    """Return one vector for each passage; their number, lengths and values are checked."""
    import numpy as np

    try:
        vectors = np.array(encoder.embed_documents([passage.contents for passage in passages]), dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise CorpusError(f"the encoder returned vectors of different lengths, or no numbers: {error}") from error
    if vectors.ndim != 2 or len(vectors) != len(passages) or not np.isfinite(vectors).all():
        raise CorpusError(
            f"the encoder returned {vectors.shape} numbers for {len(passages)} passages, or values that are not finite"
        )
    return vectors


def flat(blocks: Iterable[Vectors]) -> Untyped:
    """Return a faiss.IndexFlatIP of all vectors, which is uncompressed and exact."""
    faiss, index = faiss_module(), None
    for block in blocks:
        index = faiss.IndexFlatIP(block.shape[1]) if index is None else index
        index.add(block)
    if index is None:
        raise CorpusError("nothing to index: the corpus has no passages")
    return index


def mapped(folder: Path) -> Untyped:
    """Return the faiss.Index of a directory, memory-mapped if its kind allows it."""
    faiss = faiss_module()
    try:
        return faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        why = first_line(error).rpartition("Error: ")[2]  # without the signature of the C++ function
        raise CorpusError(f"{str(folder / INDEX)!r} cannot be read: {why}; {AGAIN}") from error


def faiss_module() -> Untyped:
    """Import FAISS, which is an extra."""
    try:
        import faiss
    except ImportError as error:
        raise UsageError("dense retrieval needs FAISS: pip install 'sottovoce[dense]'") from error
    return faiss


class DenseBuilder:
    """An `IndexBuilder` of vectors, which take 4 bytes per number: 1.5 kB per passage with the default encoder."""

    name = NAME

    def __init__(
        self, settings: DenseSettings | None = None, encoder: Embeddings | None = None, device: str | None = None
    ) -> None:
        """Take the encoder that the settings name; without `encoder`, load a sentence encoder of that name."""
        faiss_module()  # raises now if FAISS is missing, not after all vectors are computed
        self.settings = settings or DenseSettings()
        self._encoder = encoder or self.settings.loaded(device)

    def add(self, work: Path, first: int, passages: Sequence[Passage]) -> None:
        """Write the shard's vectors."""
        import numpy as np

        np.save(work / f"vectors-{first:010}.npy", embedded(passages, self._encoder))

    def finish(self, work: Path, passages: PassageStore) -> None:
        """Write a flat index of all vectors, and the docids."""
        import numpy as np

        files = sorted(work.glob("vectors-*.npy"))
        faiss_module().write_index(flat(np.load(file) for file in files), str(work / INDEX))
        with (work / DOCIDS).open("w", encoding="utf-8") as stream:
            stream.writelines(f"{passages[row].docid}\n" for row in range(len(passages)))
        for file in files:
            file.unlink()
