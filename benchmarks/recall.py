"""What a search finds for the questions of the encyclopedia that ships: `python -m benchmarks.retrieval --world`.

Its query is the question. *First* is the article that must be read first, *all* are all that are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from langchain_core.embeddings import Embeddings

from benchmarks.measuring import Table, percent
from sottovoce.environments.encyclopedia import encyclopedia
from sottovoce.environments.encyclopedia.index import open_encyclopedia
from sottovoce.environments.encyclopedia.questions import TYPES, Asked, questions
from sottovoce.retrievers import Passage, Searcher
from sottovoce.retrievers.fusion import Hybrid
from sottovoce.retrievers.passage import Hit

DEPTHS = (1, 5, 6, 10)
"""Six is what a scheme that looks things up takes."""


class Remembered(Embeddings):
    """An encoder that encodes each query once."""

    def __init__(self, encoder: Embeddings) -> None:
        """Of what encodes them."""
        self._encoder, self._known = encoder, dict[str, list[float]]()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """As they are."""
        return self._encoder.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """What is known of it, or its vector."""
        if text not in self._known:
            self._known[text] = self._encoder.embed_query(text)
        return self._known[text]


def kinds() -> dict[str, list[Asked]]:
    """The questions by type and by how many articles are read one after another."""
    asked = [each for type in TYPES for each in questions(type)]
    names = sorted({(TYPES.index(each.type), each.hops) for each in asked})
    return {
        f"{TYPES[type]}{f', {hops} hops' if hops > 1 else ''}": [
            each for each in asked if (each.type, each.hops) == (TYPES[type], hops)
        ]
        for type, hops in names
    }


def ranks(asked: Asked, hits: Sequence[Hit]) -> list[float]:
    """The 1-based places of the gold articles, in the order in which they are read; infinite where one is missing."""
    places = {hit.passage.docid: place for place, hit in enumerate(hits, 1)}
    return [places.get(title, float("inf")) for title in dict.fromkeys(title for title, _ in asked.gold)]


def recalls(asked: Sequence[Asked], searcher: Searcher) -> tuple[list[float], list[float]]:
    """By depth: of how many questions the first gold article is found, and of how many all are."""
    found = [ranks(each, searcher.search(each.text, max(DEPTHS))) for each in asked]
    return (
        [fmean(each[0] <= depth for each in found) for depth in DEPTHS],
        [fmean(max(each) <= depth for each in found) for depth in DEPTHS],
    )


def searchers(work: Path, encoder: Embeddings | None = None) -> dict[str, Searcher]:
    """All retrievers over the same articles; without an encoder MiniLM encodes."""
    from sottovoce.retrievers.building import build_index
    from sottovoce.retrievers.corpus import Corpus
    from sottovoce.retrievers.dense import DenseIndex
    from sottovoce.retrievers.encoders import SentenceEncoder
    from sottovoce.retrievers.lucene import LuceneIndex
    from sottovoce.retrievers.lucene_maker import LuceneMaker

    articles = encyclopedia().articles
    (corpus := work / "articles.jsonl").write_text("".join(f"{line}\n" for line in encyclopedia().lines()))
    build_index(LuceneMaker(), Corpus(corpus), work / "lucene")
    passages = [Passage(each.title, each.text, each.title) for each in articles]
    bm25, dense = open_encyclopedia(), DenseIndex.build(passages, Remembered(encoder or SentenceEncoder()), "minilm")
    joined = Hybrid([bm25, dense])
    return {"bm25": bm25, "lucene": LuceneIndex.open(work / "lucene"), "dense": dense, "hybrid:bm25,dense": joined}


def tables(encoder: Embeddings | None = None, most: int | None = None) -> Iterator[Table]:
    """A table for each kind of question; `most` is how many of a kind are asked."""
    with TemporaryDirectory() as name:
        opened = searchers(Path(name), encoder)
        for kind, asked in kinds().items():
            yield recalled(kind, asked[:most], opened)


def recalled(kind: str, asked: Sequence[Asked], opened: Mapping[str, Searcher]) -> Table:
    """The retrievers on one kind of question."""
    table = Table()
    heads = [f"{which} @{depth}" for which in ("first", "all") for depth in DEPTHS]
    table.add(f"{kind} ({len(asked)})", *heads)
    for name, searcher in opened.items():
        first, all_ = recalls(asked, searcher)
        table.add(name, *map(percent, [*first, *all_]))
    return table
