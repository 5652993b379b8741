"""A small corpus of invented things, and a retriever that finds what it is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import Field

from sottovoce.retrievers import Hit, Passage, PassageRetriever
from sottovoce.retrievers.index import Corpus

MILL = [
    Passage("1", "The mill of Harrow was built by Ana Brook in 1821. It stands on the river Tamsin.", "Harrow mill"),
    Passage("2", "Ana Brook was an engineer. She was born in Fenwick and built three mills.", "Ana Brook"),
    Passage(
        "3", "The Tamsin is a river. It flows past Fenwick and Harrow to the sea.", "Tamsin", "https://x.test/tamsin"
    ),
    Passage("4", "Fenwick's market is held on Mondays. O'Neill opened it.", "Fenwick"),
    Passage("5", "Bees make honey from nectar.", "Bees"),
]
QUESTION = "Who built the mill on the Tamsin near Harrow and Fenwick?"


class Canned(PassageRetriever):
    """A retriever that gives the same hits to every query, and remembers what it was asked."""

    asked: list[tuple[str, int]] = Field(default_factory=list)
    _found: list[Hit]

    def __init__(self, found: list[Hit], source: str = "canned") -> None:
        super().__init__(source=source)
        self._found = found

    def search(self, query: str, k: int) -> list[Hit]:
        self.asked.append((query, k))
        return self._found[:k]


def docids(hits: list[Hit]) -> list[str]:
    return [hit.passage.docid for hit in hits]


def written(folder: Path, passages: Sequence[Passage] = MILL) -> Corpus:
    """The passages in a file."""
    path = folder / "mill.jsonl"
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in passages))
    return Corpus(path)
