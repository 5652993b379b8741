"""Reranking: a cross-encoder reads the query with each of the first hits of a search and assigns new scores.

A LangChain document compressor can be used instead; it may also drop hits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from langchain_core.documents import BaseDocumentCompressor, Document

from sottovoce.core.errors import ModelError, RetrievalError, UsageError, first_line
from sottovoce.retrievers.encoders import BATCH, LoadedModel, folder_of
from sottovoce.retrievers.passage import Filter, Hit, Searcher, search
from sottovoce.retrievers.retriever import DOTTED, call_factory, imported
from sottovoce.retrievers.sentence_files import check_cross_encoder

DEPTH = 50
"""Number of hits that are reranked, even if fewer are requested."""


class Reranker(Protocol):
    """An object that reorders hits."""

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits with the reranker's scores, best first."""


class CrossEncoder:
    """A `Reranker` with a model that has one output and reads the query and a passage as a pair."""

    def __init__(self, name: str, *, device: str = "auto") -> None:
        """Take a directory with config.json and *.safetensors; `device` is as for `SentenceEncoder`.

        Raises:
            CorpusError: There is no such directory.
            ModelError: Its files name a prompt or further modules.
        """
        check_cross_encoder(folder_of(name))
        self.name, self._model = name, LoadedModel(name, "AutoModelForSequenceClassification", device=device)

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits sorted by the model's output; ties keep their order."""
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
    """A `Reranker` that calls a LangChain document compressor; scores are 1/rank."""

    def __init__(self, compressor: BaseDocumentCompressor, name: str = "reranker") -> None:
        """Take a compressor, and its name in error messages."""
        self._compressor, self._name = compressor, name

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits that the compressor returns, in its order and with their original passages."""
        documents = [
            Document(hit.passage.contents, metadata={**hit.passage.metadata, "hit": at}) for at, hit in enumerate(hits)
        ]
        try:
            reranked = [
                hits[document.metadata["hit"]] for document in self._compressor.compress_documents(documents, query)
            ]
        except Exception as error:  # another package's code may raise anything
            raise RetrievalError(f"{self._name!r} failed: {type(error).__name__}: {first_line(error)}") from error
        return [Hit(hit.passage, 1 / rank) for rank, hit in enumerate(reranked, 1)]


class Reranked:
    """A `Searcher` that reranks the first hits of another one."""

    fingerprint = ""  # the reranker's weights are unknown

    def __init__(self, searcher: Searcher, reranker: Reranker, depth: int = DEPTH) -> None:
        """Take a searcher and a reranker; `depth` is the number of hits that are reranked, at least `k`."""
        self.source = searcher.source
        self._searcher, self._reranker, self._depth = searcher, reranker, depth

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` by the reranker."""
        return self.search_filtered(query, k, {})

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the best `k` by the reranker among hits that pass a filter."""
        hits = search(self._searcher, query, max(k, self._depth), filter)
        return self._reranker.rerank(query, hits)[:k] if hits else []


def open_reranker(spec: str) -> Reranker:
    """Return the cross-encoder in a directory, or the compressor or reranker with a dotted name; its module is run.

    Raises:
        UsageError: The name is not that of a compressor or reranker, or creating it fails.
    """
    if not DOTTED.fullmatch(spec):
        return CrossEncoder(spec)
    thing: Any = imported(spec, "a reranker")
    if callable(thing) and not hasattr(thing, "rerank"):
        thing = call_factory(thing, spec, "rerank")
    if isinstance(thing, BaseDocumentCompressor):
        return Compressor(thing, spec)
    if not hasattr(thing, "rerank"):
        raise UsageError(f"{spec!r} is of type {type(thing).__name__}; expected a LangChain document compressor")
    reranker: Reranker = thing
    return reranker
