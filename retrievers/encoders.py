"""What turns text into vectors: a sentence encoder, or DPR's question encoder, by transformers on the CPU.

Any LangChain `Embeddings` does as well; these two are for who has none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from sottovoce.errors import CorpusError, ModelError

if TYPE_CHECKING:
    import torch

DEFAULT = "minilm"
BATCH = 32
"""Texts that are encoded together."""
LONGEST = 256
"""Tokens of a text that are read, as all-MiniLM-L6-v2 was trained; what follows is cut."""
LONGEST_QUESTION = 64
"""Tokens of a question, as DPR was."""


class _Encoder:
    """A model and its tokenizer, loaded when first needed; one text at a time waits for another."""

    def __init__(self, name: str, architecture: str) -> None:
        self.name, self._architecture, self._lock = name, architecture, threading.Lock()

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:  # Any: transformers' own classes
        import torch
        import transformers

        from sottovoce.models.huggingface.quiet import quiet

        quiet()
        where = _folder(self.name)
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, trust_remote_code=False)
            model = getattr(transformers, self._architecture).from_pretrained(
                where, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise ModelError(f"encoder {self.name!r} cannot be loaded: {' '.join(str(error).split())}") from error
        return tokenizer, model.eval()

    def run(self, texts: Sequence[str], longest: int) -> tuple[Any, torch.Tensor]:
        """The model's output for a batch, and its attention mask (batch, token)."""
        import torch

        with self._lock, torch.inference_mode():
            tokenizer, model = self._loaded
            batch = tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt")
            return model(**batch), batch["attention_mask"]


class SentenceEncoder(Embeddings):
    """Unit vectors that are the means of a text's last hidden states, so that inner products are cosines.

    That is how all-MiniLM-L6-v2 was trained, and most sentence encoders; one that was trained otherwise
    is better used through an `Embeddings` of its own.
    """

    def __init__(self, name: str = DEFAULT) -> None:
        """`name` is one that `models list` shows, or a folder with config.json and *.safetensors."""
        self.name, self._encoder = name, _Encoder(name, "AutoModel")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, in their order.

        Raises:
            ModelError: the encoder is not there, or cannot be loaded.
        """
        vectors: dict[int, list[float]] = {}
        for rows in _by_length(texts):
            vectors.update(zip(rows, self._embed([texts[row] for row in rows]), strict=True))
        return [vectors[row] for row in range(len(texts))]

    def embed_query(self, text: str) -> list[float]:
        """As a document's.

        Raises:
            ModelError: as `embed_documents`.
        """
        return self._embed([text])[0]

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        import torch

        output, mask = self._encoder.run(texts, LONGEST)
        weights = mask.unsqueeze(-1).float()
        means = (output.last_hidden_state * weights).sum(1) / weights.sum(1)
        vectors: list[list[float]] = torch.nn.functional.normalize(means, dim=-1).tolist()
        return vectors


class DPRQuestions:
    """DPR's question encoder (Karpukhin et al. 2020): the pooled first token; contexts have an encoder of their own."""

    def __init__(self, name: str) -> None:
        """`name` is a folder of a `DPRQuestionEncoder`, e.g. of facebook/dpr-question_encoder-multiset-base."""
        self.name, self._encoder = name, _Encoder(name, "DPRQuestionEncoder")

    def embed_query(self, text: str) -> list[float]:
        """The question's vector.

        Raises:
            ModelError: the encoder is not there, or cannot be loaded.
        """
        output, _ = self._encoder.run([text], LONGEST_QUESTION)
        vector: list[float] = output.pooler_output[0].tolist()
        return vector


def _folder(name: str) -> str:
    from sottovoce.models.sources import CATALOGUE, pulled

    if name in CATALOGUE:
        return str(pulled(name))
    if not (Path(name).expanduser() / "config.json").is_file():
        raise CorpusError(f"there is no encoder in {name!r}; expected {DEFAULT!r}, or a folder with config.json")
    return str(Path(name).expanduser())


def _by_length(texts: Sequence[str]) -> Iterator[list[int]]:
    """Rows in batches of texts that are about as long: little of a batch is padding."""
    rows = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]
