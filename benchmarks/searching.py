"""`python -m benchmarks.searching TASK RETRIEVER ...`: one task of one retriever, in its own process.

`benchmarks.retrieval` starts it and monitors its memory; the result is written as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from langchain_core.embeddings import Embeddings

from sottovoce.retrievers import Searcher
from sottovoce.retrievers.bm25 import BM25Builder, BM25Index
from sottovoce.retrievers.building import IndexBuilder, build_index
from sottovoce.retrievers.corpus import Corpus

K = 10
WIDTH = 384
"""Dimensions of a vector, as in all-MiniLM-L6-v2."""


class Drawn(Embeddings):
    """An encoder with random vectors, to measure a dense index without the cost of encoding."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a random vector for each text."""
        import numpy as np

        vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), WIDTH), dtype=np.float32)
        drawn: list[list[float]] = vectors.tolist()
        return drawn

    def embed_query(self, text: str) -> list[float]:
        """Return the same vector for every text."""
        return self.embed_documents([text])[0]


def builder_for(retriever: str) -> IndexBuilder:
    """Return the index maker of a retriever."""
    if retriever == "bm25":
        return BM25Builder()
    if retriever == "lucene":
        from sottovoce.retrievers.lucene import LuceneBuilder

        return LuceneBuilder()
    from sottovoce.retrievers.dense import DenseBuilder, DenseSettings

    return DenseBuilder(DenseSettings(encoder="drawn"), Drawn())


def opened(retriever: str, folder: Path) -> Searcher:
    """Open the index of a retriever."""
    if retriever == "bm25":
        return BM25Index.open(folder)
    if retriever == "lucene":
        from sottovoce.retrievers.lucene import LuceneIndex

        return LuceneIndex.open(folder)
    from sottovoce.retrievers.dense import DenseIndex

    return DenseIndex.open(folder, Drawn())


class Watch(NamedTuple):
    """A point in time by two clocks, in seconds."""

    wall: float
    cpu: float
    """CPU time of this process and of its finished children."""

    @classmethod
    def now(cls) -> Self:
        """Return the current time."""
        return cls(time.perf_counter(), time.process_time() + sum(os.times()[2:4]))

    def since(self) -> dict[str, float]:
        """Return the elapsed time by clock."""
        now = Watch.now()
        return {"wall": now.wall - self.wall, "cpu": now.cpu - self.cpu}


def build(retriever: str, corpus: Path, folder: Path) -> dict[str, Any]:  # Any: bytes beside seconds
    """Build an index; return the seconds it took, and its bytes on disk."""
    start = Watch.now()
    build_index(builder_for(retriever), Corpus(corpus), folder)
    return {"seconds": start.since(), "bytes": sum(file.stat().st_size for file in folder.rglob("*"))}


def ask(retriever: str, folder: Path, queries: Path) -> dict[str, Any]:  # Any: a list of times by clock
    """Return the seconds of each query when asked a second time."""
    asked: list[str] = json.loads(queries.read_text())
    searcher, seconds = opened(retriever, folder), list[dict[str, float]]()
    for query in asked:
        searcher.search(query, K)
    for query in asked:
        start = Watch.now()
        searcher.search(query, K)
        seconds.append(start.since())
    return {"seconds": seconds}


def encode(encoder: str, corpus: Path, queries: Path) -> dict[str, Any]:  # Any: a list beside a number
    """Return the mean seconds of encoding a passage, and the seconds of each query."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a task and write its result."""
    parser = argparse.ArgumentParser("python -m benchmarks.searching", description=__doc__)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("name", help="a retriever (bm25, lucene, dense), or for encode an encoder")
    parser.add_argument("first", type=Path, help="the corpus; for ask the folder of an index")
    parser.add_argument("second", type=Path, help="the queries; for build the folder of the index")
    parser.add_argument("report", type=Path, help="the JSON file to write")
    options = parser.parse_args(arguments)
    options.report.write_text(json.dumps(TASKS[options.task](options.name, options.first, options.second)))


if __name__ == "__main__":
    main()
