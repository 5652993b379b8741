"""Vectors of passages, and the FAISS index that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from sottovoce.errors import CorpusError, UsageError, first_line
from sottovoce.retrievers.manifest import AGAIN
from sottovoce.retrievers.passage import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    """(passage, number)."""

INDEX = "index"
"""The file, as pyserini calls it."""


def embedded(passages: Sequence[Passage], encoder: Embeddings) -> Vectors:
    """One vector a passage.

    Raises:
        CorpusError: the encoder gave another number of vectors, or what is no number.
    """
    import numpy as np

    try:
        vectors = np.array(encoder.embed_documents([each.contents for each in passages]), dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise CorpusError(f"the encoder made vectors of several lengths, or some that are none: {error}") from error
    if vectors.ndim != 2 or len(vectors) != len(passages) or not np.isfinite(vectors).all():
        raise CorpusError(
            f"the encoder made {vectors.shape} numbers of {len(passages)} passages, or some that are none"
        )
    return vectors


def flat(blocks: Iterable[Vectors]) -> Any:  # Any: faiss has no types
    """A faiss.IndexFlatIP of all vectors, uncompressed, exact.

    Raises:
        CorpusError: there are none.
        UsageError: FAISS is not installed.
    """
    faiss, index = faiss_module(), None
    for block in blocks:
        index = faiss.IndexFlatIP(block.shape[1]) if index is None else index
        index.add(block)
    if index is None:
        raise CorpusError("nothing to index: the corpus has no passages")
    return index


def mapped(folder: Path) -> Any:  # Any: faiss has no types
    """The faiss.Index of a folder, mapped where its kind can be.

    Raises:
        CorpusError: there is none that can be read.
        UsageError: FAISS is not installed.
    """
    faiss = faiss_module()
    try:
        return faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        raise CorpusError(f"{str(folder / INDEX)!r} cannot be read: {_reason(error)}; {AGAIN}") from error


def _reason(error: RuntimeError) -> str:
    """What FAISS says, behind the signature of the function that says it."""
    return first_line(error).rpartition("Error: ")[2]


def faiss_module() -> Any:  # Any: it has no types
    """FAISS, which is an extra.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UsageError("dense retrieval needs FAISS: pip install 'sottovoce[dense]'") from error
    return faiss
