"""Reranking: a cross-encoder reads the query with each of the first hits of a search and assigns new scores.

A LangChain document compressor can be used instead; it may also drop hits.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from langchain_core.documents import BaseDocumentCompressor, Document

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import ModelError, RetrievalError, UsageError, first_line
from sottovoce.retrievers.encoders import folder_of, loading, sentence_transformers
from sottovoce.retrievers.passage import Filter, Hit, Searcher, search
from sottovoce.retrievers.retriever import DOTTED, call_factory, imported

DEPTH = 50
"""Number of hits that are reranked, even if fewer are requested."""


class Reranker(Protocol):
    """An object that reorders hits."""

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits with the reranker's scores, best first."""


class CrossEncoder:
    """A `Reranker` with a model of sentence-transformers that has one output and reads the query and a passage."""

    def __init__(self, name: str, *, device: str | None = None) -> None:
        """Take a directory; `device` is as for `SentenceEncoder`."""
        folder_of(name)  # a wrong name is told at once
        self.name, self._device, self._lock = name, device, threading.Lock()

    @cached_property
    def _model(self) -> Untyped:
        library = sentence_transformers()
        with loading(self.name) as (folder, arguments):
            model = library.CrossEncoder(folder, device=self._device, **arguments)
        if model.num_labels != 1:
            raise ModelError(f"reranker {self.name!r} has {model.num_labels} outputs; expected one, a score")
        return model

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits sorted by the model's output (its logit); ties keep their order."""
        import torch

        pairs = [(query, hit.passage.contents) for hit in hits]
        with self._lock:
            scores = self._model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False).tolist()
        scored = [Hit(hit.passage, score) for hit, score in zip(hits, scores, strict=True)]
        return sorted(scored, key=lambda hit: -hit.score)


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
