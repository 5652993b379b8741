"""Recall of retrievers on questions about the bundled encyclopedia: `python -m benchmarks.retrieval --world`.

The query is the question. *First* is the article that must be read first, *all* are all articles that are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from langchain_core.embeddings import Embeddings

from benchmarks.measuring import Table, percent
from sottovoce.environments.encyclopedia import encyclopedia, open_encyclopedia
from sottovoce.environments.encyclopedia.questions import TYPES, Asked, questions
from sottovoce.retrievers import Passage, Searcher
from sottovoce.retrievers.fusion import Hybrid
from sottovoce.retrievers.passage import Hit

DEPTHS = (1, 5, 6, 10)
"""Numbers of passages; schemes with retrieval take six."""


class Remembered(Embeddings):
    """An encoder that caches its query vectors."""

    def __init__(self, encoder: Embeddings) -> None:
        """Wrap an encoder."""
        self._encoder, self._known = encoder, dict[str, list[float]]()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the encoder's vectors, without caching."""
        return self._encoder.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the cached vector of a query, computed on first use."""
        if text not in self._known:
            self._known[text] = self._encoder.embed_query(text)
        return self._known[text]


def kinds() -> dict[str, list[Asked]]:
    """Return the questions by type and number of hops (articles read one after another)."""
    asked = [each for type in TYPES for each in questions(type)]
    names = sorted({(TYPES.index(each.type), each.hops) for each in asked})
    return {
        f"{TYPES[type]}{f', {hops} hops' if hops > 1 else ''}": [
            each for each in asked if (each.type, each.hops) == (TYPES[type], hops)
        ]
        for type, hops in names
    }


def ranks(asked: Asked, hits: Sequence[Hit]) -> list[float]:
    """Return the 1-based ranks of the gold articles in reading order; infinite for a missing one."""
    places = {hit.passage.docid: place for place, hit in enumerate(hits, 1)}
    return [places.get(title, float("inf")) for title in dict.fromkeys(title for title, _ in asked.gold)]


def recalls(asked: Sequence[Asked], searcher: Searcher) -> tuple[list[float], list[float]]:
    """Return the shares of questions, by depth, for which the first gold article and all of them are found."""
    found = [ranks(each, searcher.search(each.text, max(DEPTHS))) for each in asked]
    return (
        [fmean(each[0] <= depth for each in found) for depth in DEPTHS],
        [fmean(max(each) <= depth for each in found) for depth in DEPTHS],
    )


def searchers(work: Path, encoder: Embeddings | None = None) -> dict[str, Searcher]:
    """Return all retrievers over the same articles; the default encoder is MiniLM."""
    from sottovoce.retrievers.building import build_index
    from sottovoce.retrievers.corpus import Corpus
    from sottovoce.retrievers.dense import DenseIndex
    from sottovoce.retrievers.encoders import SentenceEncoder
    from sottovoce.retrievers.lucene import LuceneBuilder, LuceneIndex

    articles = encyclopedia().articles
    (corpus := work / "articles.jsonl").write_text("".join(f"{line}\n" for line in encyclopedia().lines()))
    build_index(LuceneBuilder(), Corpus(corpus), work / "lucene")
    passages = [Passage(each.title, each.text, each.title) for each in articles]
    bm25, dense = open_encyclopedia(), DenseIndex.build(passages, Remembered(encoder or SentenceEncoder()), "minilm")
    joined = Hybrid([bm25, dense])
    return {"bm25": bm25, "lucene": LuceneIndex.open(work / "lucene"), "dense": dense, "hybrid:bm25,dense": joined}


def tables(encoder: Embeddings | None = None, most: int | None = None) -> Iterator[Table]:
    """Yield a table for each kind of question, with at most `most` questions of each."""
    with TemporaryDirectory() as name:
        opened = searchers(Path(name), encoder)
        for kind, asked in kinds().items():
            yield recalled(kind, asked[:most], opened)


def recalled(kind: str, asked: Sequence[Asked], opened: Mapping[str, Searcher]) -> Table:
    """Return the table of all retrievers on one kind of question."""
    table = Table()
    heads = [f"{which} @{depth}" for which in ("first", "all") for depth in DEPTHS]
    table.add(f"{kind} ({len(asked)})", *heads)
    for name, searcher in opened.items():
        first, all_ = recalls(asked, searcher)
        table.add(name, *map(percent, [*first, *all_]))
    return table
