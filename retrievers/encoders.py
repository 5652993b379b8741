"""Text encoders based on transformers: a sentence encoder as its files describe it, and DPR's question encoder.

Any LangChain `Embeddings` can be used instead.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.embeddings import Embeddings

from sottovoce.core.errors import CorpusError, ModelError
from sottovoce.retrievers.sentence_files import (
    OF_PASSAGES,
    OF_QUERIES,
    SentenceFiles,
    linear,
    pooled,
    sentence_files,
    unit,
)

if TYPE_CHECKING:
    import torch

DEFAULT = "minilm"
BATCH = 32
"""Number of texts that are encoded together."""
LONGEST = 512
"""Longest text in tokens if files, tokenizer and model name no limit; longer texts are truncated."""
ENCODER_HALVES = ("t5", "mt5", "umt5", "t5gemma")
"""Encoder-decoder types whose encoder alone is used, whatever `is_encoder_decoder` says in their files."""
LONGEST_QUESTION = 64
"""Longest question in tokens, as in DPR's training."""


class LoadedModel:
    """A model and its tokenizer, loaded at first use; it runs one batch at a time."""

    def __init__(self, name: str, architecture: str, folder: Path | None = None, device: str = "auto") -> None:
        self.name, self._architecture, self._folder, self._device = name, architecture, folder, device
        self._lock = threading.Lock()

    @cached_property
    def parts(self) -> tuple[Any, Any]:  # Any: transformers' own classes
        """The tokenizer and the model."""
        import torch
        import transformers

        from sottovoce.models.huggingface.checkpoint_check import check_adapter, check_code
        from sottovoce.models.huggingface.load_files import quiet

        quiet()
        where = self._folder or folder_of(self.name)
        check_adapter(self.name, where)
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, trust_remote_code=False)
            config = transformers.AutoConfig.from_pretrained(where, trust_remote_code=False)
            check_code(self.name, config)
            half = self._architecture == "AutoModel" and config.model_type in ENCODER_HALVES
            model = getattr(transformers, "AutoModelForTextEncoding" if half else self._architecture)
            loaded = model.from_pretrained(
                where, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
            ).eval()
            gpu = "cuda" if torch.cuda.is_available() else "cpu"
            return tokenizer, loaded.to(gpu if self._device == "auto" else self._device)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError) as error:
            raise ModelError(f"encoder {self.name!r} cannot be loaded: {' '.join(str(error).split())}") from error

    def run(self, texts: Sequence[Any], longest: int | None) -> tuple[Any, torch.Tensor]:  # Any: texts, or pairs
        """Return the model's output for a batch, and its attention mask (batch, token)."""
        import torch

        with self._lock, torch.inference_mode():
            tokenizer, model = self.parts
            most = longest or self._longest(tokenizer, model)
            batch = tokenizer(list(texts), padding=True, truncation=True, max_length=most, return_tensors="pt")
            batch = batch.to(model.device)
            try:
                return model(**batch), batch["attention_mask"]
            except (ValueError, TypeError, IndexError, RuntimeError) as error:  # too long, or it needs other inputs
                why = " ".join(str(error).split())
                raise ModelError(f"encoder {self.name!r} cannot read these texts: {why}") from error

    def _longest(self, tokenizer: Any, model: Any) -> int:  # Any: see `parts`
        known = (tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None))
        sane = [length for length in known if length is not None and 0 < length < 10**6]
        return min(sane, default=LONGEST)


class SentenceEncoder(Embeddings):
    """A sentence encoder: the inner product of two vectors measures how close their texts are in meaning.

    Pooling, prompts of queries and passages, the longest text, linear layers and normalization come from the encoder's
    files.
    """

    def __init__(
        self,
        name: str = DEFAULT,
        *,
        device: str = "auto",
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        """Take a name from `models list`, or a directory with config.json and *.safetensors.

        `device` is cpu, cuda, cuda:1, mps, or auto: a GPU if there is one. A prompt such as E5's "query: " is
        put before each text; None uses the prompt in the files, and "" uses none.
        """
        self.name, self._device = name, device
        self._query_prompt, self._passage_prompt = query_prompt, passage_prompt

    @cached_property
    def _files(self) -> SentenceFiles:
        return sentence_files(folder_of(self.name))

    @cached_property
    def _model(self) -> LoadedModel:
        return LoadedModel(self.name, "AutoModel", self._files.transformer, self._device)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order.

        Raises:
            ModelError: the encoder is not available, or cannot be loaded.
        """
        prompt = self._files.prompt(OF_PASSAGES) if self._passage_prompt is None else self._passage_prompt
        by_length = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # similar lengths need little padding
        vectors: dict[int, list[float]] = {}
        for start in range(0, len(texts), BATCH):
            rows = by_length[start : start + BATCH]
            vectors.update(zip(rows, self._embed([texts[row] for row in rows], prompt), strict=True))
        return [vectors[row] for row in range(len(texts))]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        prompt = self._files.prompt(OF_QUERIES) if self._query_prompt is None else self._query_prompt
        return self._embed([text], prompt)[0]

    def _embed(self, texts: Sequence[str], prompt: str) -> list[list[float]]:
        files = self._files
        prompted = [prompt + text for text in texts]
        output, mask = self._model.run([text.lower() for text in prompted] if files.lower else prompted, files.longest)
        left_out = self._tokens_of(prompt) if prompt and not files.include_prompt else 0
        vectors = pooled(output.last_hidden_state, mask, files.pooling, left_out)
        for layer in files.layers:
            vectors = unit(vectors) if layer is None else self._layers[layer](vectors)
        rows: list[list[float]] = vectors.tolist()
        return rows

    @cached_property
    def _layers(self) -> dict[Path, Any]:  # Any: a torch module
        _, model = self._model.parts
        return {layer: linear(layer).to(model.device) for layer in self._files.layers if layer is not None}

    def _tokens_of(self, prompt: str) -> int:
        """Return the number of tokens in a prompt, without the one that ends a text."""
        tokenizer, _ = self._model.parts
        ids = tokenizer(prompt.lower() if self._files.lower else prompt)["input_ids"]
        return len(ids) - (ids[-1] in tokenizer.all_special_ids)


class DPRQuestions:
    """DPR's question encoder (Karpukhin et al. 2020): the pooled first token. Passages have a separate encoder."""

    def __init__(self, name: str) -> None:
        """Take the directory of a `DPRQuestionEncoder`, e.g. of facebook/dpr-question_encoder-multiset-base."""
        self.name, self._encoder = name, LoadedModel(name, "DPRQuestionEncoder")

    def embed_query(self, text: str) -> list[float]:
        """Return the question's vector."""
        output, _ = self._encoder.run([text], LONGEST_QUESTION)
        vector: list[float] = output.pooler_output[0].tolist()
        return vector


def folder_of(name: str) -> Path:
    """Return the directory of the model with this name."""
    from sottovoce.models.sources import CATALOGUE, pulled

    if name in CATALOGUE:
        return Path(pulled(name))
    folder = Path(name).expanduser()
    if not any((folder / file).is_file() for file in ("config.json", "modules.json")):
        raise CorpusError(f"there is no encoder in {name!r}; expected {DEFAULT!r}, or a directory with config.json")
    return folder
