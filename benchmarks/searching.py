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
from statistics import median
from typing import Any

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


def build(retriever: str, corpus: Path, folder: Path) -> dict[str, float]:
    """Seconds by the clock and of the processor, those of programs that it starts among them, and bytes on disk."""
    clock, busy = time.perf_counter(), sum(os.times()[:4])
    build_index(maker_of(retriever), Corpus(corpus), folder)
    seconds, cpu = time.perf_counter() - clock, sum(os.times()[:4]) - busy
    return {"seconds": seconds, "cpu": cpu, "bytes": sum(file.stat().st_size for file in folder.rglob("*"))}


def ask(retriever: str, folder: Path, queries: Path) -> dict[str, Any]:  # Any: docids beside times
    """Seconds that each query took when all were asked a second time, and docids of the best ten."""
    asked: list[str] = json.loads(queries.read_text())
    searcher, seconds = opened(retriever, folder), list[float]()
    found = [[hit.passage.docid for hit in searcher.search(query, K)] for query in asked]
    for query in asked:
        start = time.perf_counter()
        searcher.search(query, K)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "found": found}


def encode(encoder: str, corpus: Path, queries: Path) -> dict[str, float]:
    """Passages a second, and the middle seconds of a query."""
    import torch

    from sottovoce.retrievers.encoders import SentenceEncoder

    torch.set_num_threads(1)
    loaded, asked = SentenceEncoder(encoder), json.loads(queries.read_text())
    texts = [passage.contents for passage in Corpus(corpus)]
    loaded.embed_documents(texts[:8])  # loads it
    start = time.perf_counter()
    loaded.embed_documents(texts)
    rate, seconds = len(texts) / (time.perf_counter() - start), list[float]()
    for query in asked:
        start = time.perf_counter()
        loaded.embed_query(query)
        seconds.append(time.perf_counter() - start)
    return {"passages": rate, "query": median(seconds)}


TASKS: Mapping[str, Callable[[str, Path, Path], dict[str, Any]]] = {"build": build, "ask": ask, "encode": encode}


def main() -> None:
    """Do a task, and write what it found."""
    task, name, *paths, report = sys.argv[1:]
    first, second = map(Path, paths)
    Path(report).write_text(json.dumps(TASKS[task](name, first, second)))


if __name__ == "__main__":
    main()
