"""Builder of a BM25 index on disk: each shard stores its terms as numbers, and all are scored at the end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from sottovoce.retrievers.bm25 import FOLDER, NAME, BM25Settings, Terms, scored
from sottovoce.retrievers.passage import Passage


class BM25Maker:
    """A `Maker` for BM25. Passages are streamed; at the end all terms are in memory, as numbers."""

    name = NAME

    def __init__(self, settings: BM25Settings | None = None) -> None:
        """Take settings, which the manifest records."""
        self.settings = settings or BM25Settings()

    def made_with(self) -> dict[str, str]:
        """Return the versions of the libraries that the index depends on."""
        return {name: version(name) for name in ("bm25s", "PyStemmer")}

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write the shard's vocabulary and numbers; no shard depends on another."""
        import numpy as np

        terms = Terms()
        for passage in passages:
            terms.add(self.settings.analysis.terms(passage.contents))
        np.savez(
            _file(shards, number),
            vocabulary=np.frombuffer("\n".join(terms.numbers).encode(), dtype=np.uint8),
            lengths=np.array([len(each) for each in terms.passages], dtype=np.int64),
            numbers=np.concatenate([np.frombuffer(each, dtype=np.int32) for each in terms.passages]),
        )

    def finish(self, shards: Path, n: int, work: Path) -> None:
        """Score all passages over the joined vocabulary, with terms in order of first occurrence."""
        terms = Terms()
        for number in range(n):
            _join(terms, _file(shards, number))
        scored(terms, self.settings).save(str(work / FOLDER), show_progress=False)


def _file(shards: Path, number: int) -> Path:
    return shards / f"terms-{number:05}.npz"


def _join(terms: Terms, file: Path) -> None:
    import numpy as np

    with np.load(file) as kept:
        vocabulary = bytes(kept["vocabulary"]).decode().split("\n")
        renumbered = np.array([terms.number(term) for term in vocabulary], dtype=np.int32)
        numbers, ends = kept["numbers"], np.cumsum(kept["lengths"])
    numbers = renumbered[numbers]
    for start, end in pairwise([0, *ends.tolist()]):
        terms.passages.append(array("i", numbers[start:end].tobytes()))
