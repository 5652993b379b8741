"""Builder of a dense index on disk: each shard stores its vectors, and all are joined at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from langchain_core.embeddings import Embeddings

from sottovoce.retrievers.dense import DOCIDS, NAME, PROBE, PROBED, DenseSettings
from sottovoce.retrievers.manifest import write_whole
from sottovoce.retrievers.passage import Passage
from sottovoce.retrievers.vectors import INDEX, embedded, faiss_module, flat


class DenseMaker:
    """A `Maker` for dense indexes. Vectors take 4 bytes per number: 1.5 kB per passage with the default encoder."""

    name = NAME

    def __init__(
        self, settings: DenseSettings | None = None, encoder: Embeddings | None = None, device: str = "auto"
    ) -> None:
        """Take the encoder that the settings name; without `encoder`, load a sentence encoder of that name."""
        faiss_module()  # raises now if FAISS is missing, not after all vectors are computed
        self.settings = settings or DenseSettings()
        self._encoder = encoder or self.settings.loaded(device)

    def made_with(self) -> dict[str, str]:
        """Return the versions of the libraries that the index depends on."""
        return {name: version(name) for name in ("faiss-cpu", "transformers")}

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write the shard's vectors, and the docids of its rows."""
        import numpy as np

        np.save(_vectors(shards, number), embedded(passages, self._encoder))
        _docids(shards, number).write_text("".join(f"{each.docid}\n" for each in passages), encoding="utf-8")

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
