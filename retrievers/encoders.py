"""Text encoders: sentence encoders by sentence-transformers, and DPR's question encoder by transformers.

Any LangChain `Embeddings` can be used instead of a sentence encoder. A model is loaded from a directory at first use,
from safetensors alone; code of its own is never run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from langchain_core.embeddings import Embeddings

from sottovoce.core.any_types import Keywords, Unimported, Untyped
from sottovoce.core.errors import CorpusError, ModelError, UsageError

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
    from sottovoce.models.huggingface.checkpoint_check import check_adapter, reading
    from sottovoce.models.huggingface.load_files import quiet

    quiet()
    folder = folder_of(name)
    check_adapter(name, folder)
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
