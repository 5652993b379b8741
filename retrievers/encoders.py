"""Models that compare texts: sentence encoders and rerankers by sentence-transformers, and DPR's question encoder.

Any LangChain `Embeddings` can be used instead of a sentence encoder. A reranker reads the query with each of the first
hits of a search and assigns new scores; a LangChain document compressor can be used instead, which may also drop hits.
A model is loaded from a directory at first use, from safetensors alone; the model's own code is never run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings

from sottovoce.core.any_types import Keywords, Unimported, Untyped
from sottovoce.core.errors import CorpusError, ModelError, RetrievalError, UsageError, first_line
from sottovoce.retrievers.passage import Filter, Hit
from sottovoce.retrievers.retriever import DOTTED, PassageRetriever, imported, made_by

DEFAULT = "minilm"
LONGEST_QUESTION = 64
"""Longest question in tokens, as in DPR's training."""
COMPARED = ("cosine", "dot")
"""How vectors are compared that an index by inner product can hold."""


class SentenceEncoder(Embeddings):
    """A sentence encoder: the inner product of two vectors measures how close their texts are in meaning.

    Pooling, prompts of queries and passages, the longest text, linear layers and normalization come from its files.
    """

    def __init__(
        self,
        name: str = DEFAULT,
        *,
        device: str | None = None,
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        """Take a name from `models list`, or a directory in the layout of sentence-transformers or of transformers.

        `device` is cpu, cuda, cuda:1 or mps; None takes a GPU if there is one. A prompt such as E5's "query: " is put
        before each text; None uses the prompt in the files, and "" uses none.
        """
        self.name, self._device, self._lock = name, device, threading.Lock()
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt

    @cached_property
    def _model(self) -> Untyped:
        library = sentence_transformers()
        with loading(self.name) as (folder, arguments):
            model = library.SentenceTransformer(folder, device=self._device, **arguments)
        if (compared := model.similarity_fn_name) not in COMPARED:
            raise ModelError(f"encoder {self.name!r} is compared by {compared!r}; expected {' or '.join(COMPARED)}")
        return model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order.

        Raises:
            ModelError: the encoder is not available, or cannot be loaded.
            UsageError: sentence-transformers is not installed.
        """
        return self._embed("encode_document", texts, self._passage_prompt)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self._embed("encode_query", [text], self._query_prompt)[0]

    def _embed(self, method: str, texts: Sequence[str], prompt: str | None) -> list[list[float]]:
        given = {} if prompt is None else {"prompt": prompt}
        with self._lock:
            model = self._model
            vectors: list[list[float]] = getattr(model, method)(
                list(texts), normalize_embeddings=model.similarity_fn_name == "cosine", show_progress_bar=False, **given
            ).tolist()
        return vectors


class DPRQuestions:
    """DPR's question encoder (Karpukhin et al. 2020): the pooled first token. Passages have a separate encoder."""

    def __init__(self, name: str) -> None:
        """Take the directory of a `DPRQuestionEncoder`, e.g. of facebook/dpr-question_encoder-multiset-base."""
        self.name, self._lock = name, threading.Lock()

    @cached_property
    def _parts(self) -> tuple[Untyped, Untyped]:
        import transformers

        with loading(self.name) as (folder, _):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            return tokenizer, transformers.DPRQuestionEncoder.from_pretrained(folder, use_safetensors=True).eval()

    def embed_query(self, text: str) -> list[float]:
        """Return the question's vector."""
        import torch

        with self._lock, torch.inference_mode():
            tokenizer, model = self._parts
            tokens = tokenizer(text, truncation=True, max_length=LONGEST_QUESTION, return_tensors="pt")
            vector: list[float] = model(**tokens).pooler_output[0].tolist()
        return vector


def sentence_transformers() -> Unimported:
    """Import sentence-transformers."""
    try:
        import sentence_transformers
    except ImportError as error:
        raise UsageError("dense retrieval needs sentence-transformers: pip install 'sottovoce[dense]'") from error
    return sentence_transformers


@contextmanager
def loading(name: str) -> Iterator[tuple[str, dict[str, Keywords]]]:
    """Yield a model's directory and the arguments to load it; any error of a library becomes a ModelError."""
    from sottovoce.models.huggingface.load_files import quiet, reading
    from sottovoce.models.sources.locate import check_whole

    quiet()
    folder = folder_of(name)
    check_whole(name, folder)
    for pickled in (*folder.rglob("*.bin"), *folder.rglob("*.pt"), *folder.rglob("*.ckpt")):
        if not [*pickled.parent.glob("*.safetensors")]:
            raise ModelError(f"model {name!r} has weights in {pickled.name!r}, a pickle; expected model.safetensors")
    with reading(name):
        options = {"model_kwargs": {"use_safetensors": True, "dtype": "float32"}}
        yield str(folder), {"trust_remote_code": False, "local_files_only": True, **options}


def folder_of(name: str) -> Path:
    """Return the directory of the model with this name."""
    from sottovoce.models.sources import CATALOGUE, pulled

    if name in CATALOGUE:
        return Path(pulled(name))
    folder = Path(name).expanduser()
    if not any((folder / file).is_file() for file in ("config.json", "modules.json")):
        raise CorpusError(f"there is no encoder in {name!r}; expected {DEFAULT!r}, or a directory with config.json")
    return folder


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
            found = self._compressor.compress_documents(documents, query)
            reranked = [hits[document.metadata["hit"]] for document in found]
        except Exception as error:  # another package's code may raise anything
            raise RetrievalError(f"{self._name!r} failed: {type(error).__name__}: {first_line(error)}") from error
        return [Hit(hit.passage, 1 / rank) for rank, hit in enumerate(reranked, 1)]


class Reranked(PassageRetriever):
    """A retriever that reranks the first hits of another one."""

    _retriever: PassageRetriever
    _reranker: Reranker
    _depth: int

    def __init__(self, retriever: PassageRetriever, reranker: Reranker, depth: int = DEPTH) -> None:
        """Take a retriever and a reranker; `depth` is the number of hits that are reranked, at least `k`."""
        super().__init__(source=retriever.source)
        self._retriever, self._reranker, self._depth = retriever, reranker, depth

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` by the reranker."""
        return self.search_filtered(query, k, {})

    def search_filtered(self, query: str, k: int, filter: Filter) -> list[Hit]:
        """Return the best `k` by the reranker among hits that pass a filter."""
        hits = self._retriever.hits(query, max(k, self._depth), filter)
        return self._reranker.rerank(query, hits)[:k] if hits else []


def open_reranker(spec: str) -> Reranker:
    """Return the cross-encoder in a directory, or the compressor or reranker with a dotted name; its module is run.

    Raises:
        UsageError: The name does not belong to a compressor or reranker, or creating it fails.
    """
    if not DOTTED.fullmatch(spec):
        return CrossEncoder(spec)
    thing: Any = imported(spec, "a reranker")
    if callable(thing) and not hasattr(thing, "rerank"):
        thing = made_by(thing, spec)
    if isinstance(thing, BaseDocumentCompressor):
        return Compressor(thing, spec)
    if not hasattr(thing, "rerank"):
        raise UsageError(f"{spec!r} is of type {type(thing).__name__}; expected a LangChain document compressor")
    reranker: Reranker = thing
    return reranker
