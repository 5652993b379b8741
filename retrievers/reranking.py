"""Hits that are scored again: the first of a search are read together with the query by a cross-encoder.

So does any LangChain document compressor, which may also leave some of them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from langchain_core.documents import BaseDocumentCompressor, Document

from sottovoce.errors import ModelError, RetrievalError, UsageError, first_line
from sottovoce.retrievers.encoders import BATCH, LoadedModel
from sottovoce.retrievers.foreign import DOTTED, imported
from sottovoce.retrievers.passage import Filter, Hit, Searcher, search

DEPTH = 50
"""Hits that are scored again, where fewer are wanted."""


class Reranker(Protocol):
    """Puts hits in another order."""

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits with scores of its own, the best first."""


class CrossEncoder:
    """A `Reranker`: a model with one output that reads the query and a passage as a pair."""

    def __init__(self, name: str, *, device: str = "auto") -> None:
        """`name` is a folder with config.json and *.safetensors; `device` as for `SentenceEncoder`."""
        self.name, self._model = name, LoadedModel(name, "AutoModelForSequenceClassification", device=device)

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits by the model's output; of equal ones the one that stood earlier.

        Raises:
            ModelError: it is not there, cannot be loaded, or has not one output.
        """
        scores = [score for start in range(0, len(hits), BATCH) for score in self._scores(query, hits[start:][:BATCH])]
        scored = [Hit(hit.passage, score) for hit, score in zip(hits, scores, strict=True)]
        return sorted(scored, key=lambda hit: -hit.score)

    def _scores(self, query: str, hits: Sequence[Hit]) -> list[float]:
        output, _ = self._model.run([(query, hit.passage.contents) for hit in hits], None)
        if output.logits.shape[-1] != 1:
            raise ModelError(f"reranker {self.name!r} has {output.logits.shape[-1]} outputs; expected one, a score")
        scores: list[float] = output.logits[:, 0].tolist()
        return scores


class Compressor:
    """A `Reranker` of a LangChain document compressor; scores are 1/rank."""

    def __init__(self, compressor: BaseDocumentCompressor, name: str = "reranker") -> None:
        """`name` is what errors call it."""
        self._compressor, self._name = compressor, name

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return those hits that it returns, in its order, as their passages stood.

        Raises:
            RetrievalError: it failed, or returned what it was not given.
        """
        given = [
            Document(hit.passage.contents, metadata={**hit.passage.metadata, "hit": at}) for at, hit in enumerate(hits)
        ]
        try:
            found = [hits[document.metadata["hit"]] for document in self._compressor.compress_documents(given, query)]
        except Exception as error:  # another package's code: what it raises is not known
            raise RetrievalError(f"{self._name!r} failed: {type(error).__name__}: {first_line(error)}") from error
        return [Hit(hit.passage, 1 / rank) for rank, hit in enumerate(found, 1)]


class Reranked:
    """A `Searcher`: the first hits of another one, scored again."""

    def __init__(self, searcher: Searcher, reranker: Reranker, depth: int = DEPTH) -> None:
        """`depth` is how many are scored again, at least as many as are wanted."""
        self._searcher, self._reranker, self._depth = searcher, reranker, depth

    @property
    def source(self) -> str:
        """Whose passages they are."""
        return self._searcher.source

    @property
    def fingerprint(self) -> str:
        """Empty: a model's weights are not known by it."""
        return ""

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` by the reranker."""
        return self.search_filtered(query, k, {})

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the same of those that pass a filter."""
        hits = search(self._searcher, query, max(k, self._depth), filter)
        return self._reranker.rerank(query, hits)[:k] if hits else []


def open_reranker(spec: str) -> Reranker:
    """Return the cross-encoder in a folder, or the compressor or reranker of a dotted name, whose module runs.

    Raises:
        UsageError: what has that name is none.
    """
    if not DOTTED.fullmatch(spec):
        return CrossEncoder(spec)
    thing: Any = imported(spec, "a reranker")
    if callable(thing) and not hasattr(thing, "rerank"):
        thing = thing()
    if isinstance(thing, BaseDocumentCompressor):
        return Compressor(thing, spec)
    if not hasattr(thing, "rerank"):
        raise UsageError(f"{spec!r} is of type {type(thing).__name__}; expected a LangChain document compressor")
    found: Reranker = thing
    return found
