"""`python -m benchmarks.searching WHAT RETRIEVER ...`: one retriever builds or is asked, in a process of its own.

`benchmarks.retrieval` starts it and watches its memory; what it found is written as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from langchain_core.embeddings import Embeddings

from sottovoce.retrievers import Searcher
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.bm25_maker import BM25Maker
from sottovoce.retrievers.building import Maker, build_index
from sottovoce.retrievers.corpus import Corpus

K = 10
WIDTH = 384
"""Numbers of a vector, as all-MiniLM-L6-v2 makes them."""


class Drawn(Embeddings):
    """Vectors drawn at random, all at once: with them a dense index shows what it takes without an encoder."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """As many as there are texts."""
        import numpy as np

        vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), WIDTH), dtype=np.float32)
        drawn: list[list[float]] = vectors.tolist()
        return drawn

    def embed_query(self, text: str) -> list[float]:
        """The same for every text."""
        return self.embed_documents([text])[0]


def maker_of(retriever: str) -> Maker:
    """What makes its index."""
    if retriever == "bm25":
        return BM25Maker()
    if retriever == "lucene":
        from sottovoce.retrievers.lucene_maker import LuceneMaker

        return LuceneMaker()
    from sottovoce.retrievers.dense import DenseSettings
    from sottovoce.retrievers.dense_maker import DenseMaker

    return DenseMaker(DenseSettings(encoder="drawn"), Drawn())


def opened(retriever: str, folder: Path) -> Searcher:
    """Its index."""
    if retriever == "bm25":
        return BM25Index.open(folder)
    if retriever == "lucene":
        from sottovoce.retrievers.lucene import LuceneIndex

        return LuceneIndex.open(folder)
    from sottovoce.retrievers.dense import DenseIndex

    return DenseIndex.open(folder, Drawn())


class Watch(NamedTuple):
    """Seconds from some moment on."""

    wall: float
    cpu: float
    """Of the processor, in this process and in those that it started and that are over."""

    @classmethod
    def now(cls) -> Self:
        """This moment."""
        return cls(time.perf_counter(), time.process_time() + sum(os.times()[2:4]))

    def since(self) -> dict[str, float]:
        """What has passed, by clock."""
        now = Watch.now()
        return {"wall": now.wall - self.wall, "cpu": now.cpu - self.cpu}


def build(retriever: str, corpus: Path, folder: Path) -> dict[str, Any]:  # Any: bytes beside seconds
    """Seconds that it took, and bytes on disk."""
    start = Watch.now()
    build_index(maker_of(retriever), Corpus(corpus), folder)
    return {"seconds": start.since(), "bytes": sum(file.stat().st_size for file in folder.rglob("*"))}


def ask(retriever: str, folder: Path, queries: Path) -> dict[str, Any]:  # Any: docids beside times
    """Seconds that each query took when all were asked a second time, and docids of the best ten."""
    asked: list[str] = json.loads(queries.read_text())
    searcher, seconds = opened(retriever, folder), list[dict[str, float]]()
    found = [[hit.passage.docid for hit in searcher.search(query, K)] for query in asked]
    for query in asked:
        start = Watch.now()
        searcher.search(query, K)
        seconds.append(start.since())
    return {"seconds": seconds, "found": found}


def encode(encoder: str, corpus: Path, queries: Path) -> dict[str, Any]:  # Any: a list beside a number
    """Seconds of a passage on average, and of each query."""
    import torch

    from sottovoce.retrievers.encoders import SentenceEncoder

    torch.set_num_threads(1)
    loaded, asked = SentenceEncoder(encoder), json.loads(queries.read_text())
    texts = [passage.contents for passage in Corpus(corpus)]
    loaded.embed_documents(texts[:8])  # loads it
    start = Watch.now()
    loaded.embed_documents(texts)
    passage, seconds = {clock: each / len(texts) for clock, each in start.since().items()}, list[dict[str, float]]()
    for query in asked:
        start = Watch.now()
        loaded.embed_query(query)
        seconds.append(start.since())
    return {"passage": passage, "seconds": seconds}


TASKS: Mapping[str, Callable[[str, Path, Path], dict[str, Any]]] = {"build": build, "ask": ask, "encode": encode}


def main() -> None:
    """Do a task, and write what it found."""
    task, name, *paths, report = sys.argv[1:]
    first, second = map(Path, paths)
    Path(report).write_text(json.dumps(TASKS[task](name, first, second)))


if __name__ == "__main__":
    main()
