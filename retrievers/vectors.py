"""Vectors of passages, and FAISS indexes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from sottovoce.core.errors import CorpusError, UsageError, first_line
from sottovoce.retrievers.passage import Passage
from sottovoce.retrievers.store import AGAIN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    """Shape (passage, number)."""

INDEX = "index"
"""Name of the file, as in pyserini."""


def embedded(passages: Sequence[Passage], encoder: Embeddings) -> Vectors:
    """Return one vector for each passage.

    Raises:
        CorpusError: the encoder returned another number of vectors, different lengths, or values that are not finite.
    """
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


def flat(blocks: Iterable[Vectors]) -> Any:  # Any: faiss has no types
    """Return a faiss.IndexFlatIP of all vectors, which is uncompressed and exact.

    Raises:
        CorpusError: there are no vectors.
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
    """Return the faiss.Index of a directory, memory-mapped if its kind allows it.

    Raises:
        CorpusError: there is no readable index.
        UsageError: FAISS is not installed.
    """
    faiss = faiss_module()
    try:
        return faiss.read_index(str(folder / INDEX), faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY)
    except RuntimeError as error:
        raise CorpusError(f"{str(folder / INDEX)!r} cannot be read: {_reason(error)}; {AGAIN}") from error


def _reason(error: RuntimeError) -> str:
    """Return the message of FAISS without the function signature before it."""
    return first_line(error).rpartition("Error: ")[2]


def faiss_module() -> Any:  # Any: it has no types
    """Import FAISS, which is an extra.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UsageError("dense retrieval needs FAISS: pip install 'sottovoce[dense]'") from error
    return faiss
