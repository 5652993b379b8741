"""A loaded model with all that a protocol needs: tokenizer, chat template, embedding table, engine, temperatures.

A drawn token is a word at any temperature, although a small chat model rambles at 1. A mean embedding is near a
word only if the distribution is narrow. SmolLM2, whose files name no temperature, writes fluent text from means at
0.15 to 0.4 and noise at 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sottovoce.core.any_types import JSONValue
from sottovoce.core.catalogue import defaults_of
from sottovoce.core.errors import UsageError
from sottovoce.core.thoughts import Markers
from sottovoce.models.engine.engine import Engine
from sottovoce.models.engine.request import Sampling
from sottovoce.models.huggingface.chat import ChatTemplate
from sottovoce.models.huggingface.embedding_table import Table, digest_of_all, tensors_of
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.packed_weights import format_of
from sottovoce.models.huggingface.text import Detokenizer

LATENT_DEPTH = 0.7  # default depth of the layer that is read and edited; never the last layer
KNOWN_LAYERS = {  # chosen in arXiv 2506.19209, by (family, layers, hidden size, vocabulary rows)
    ("qwen2", 28, 3584, 152064): (22,),  # Qwen2.5-7B-Instruct
    ("llama", 32, 4096, 128256): (17, 20),  # Llama-3.1-8B-Instruct
    ("qwen2", 48, 5120, 152064): (21, 23, 33),  # Qwen2.5-14B-Instruct
}
RIDGE = 1e-5  # of the realignment, as in the published code of LatentMAS
TOP_K = 50  # default of `transformers.generate` if the generation configuration names none
CAUTIOUS = 0.3
"""Temperature of means for an unknown model: readable on the smallest chat model that we measured."""
USUAL = 0.7
"""Temperature of drawn tokens for an unknown model: chat models are published with 0.6 to 0.7."""
PUBLISHED: Mapping[str, float] = {"Qwen": 0.7, "Llama 3": 0.6}
"""Temperatures by family, from generation_config.json of the Qwen2.5 and Llama 3.1 instruct models."""
MEASURED: Mapping[str, float] = {"7b4b7b56b431b7f9": 0.4}
"""Temperatures by weights: measured by `models doctor` for SmolLM2-135M-Instruct in float32, from the catalogue."""


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel:
    """One model in one process. Agents that name the same model share its loaded model."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    network: Network
    engine: Engine
    chat: ChatTemplate
    table: Table = field(init=False)
    """The model's embedding table over its tokenizer's vocabulary."""
    layers: int = field(init=False)
    """Number of decoder layers."""
    dtype: torch.dtype = field(init=False)
    """The dtype the model computes in."""
    format: str = field(init=False)
    """Storage format of the linear maps: int8 or int4, otherwise the name of the dtype."""
    parameters: int = field(init=False)
    """Number of trained parameters; tied parameters count once."""
    eos: int | None = field(init=False)
    """The tokenizer's end-of-sequence id."""

    def __post_init__(self) -> None:
        network, eos = self.network, self.tokenizer.eos_token_id
        vars(self).update(
            table=network.table,
            layers=len(network.layers),
            dtype=network.table.rows.dtype,
            format=format_of(self.model),
            parameters=network.parameters,
            eos=None if eos is None else int(eos),
        )

    def __repr__(self) -> str:
        return f"LoadedModel({self.name!r})"

    def detokenizer(self, *, special: bool) -> Detokenizer:
        """Return a decoder of ids; `special` keeps special tokens as text."""
        return Detokenizer(self.tokenizer, special=special)

    def thinking(self, wish: bool | None, markers: Markers | None = None) -> LoadedModel:
        """Return the same model and engine with the thinking switch of the chat template set to `wish`.

        `markers` surround its thoughts, if they are not the markers of a known family.

        Raises:
            UsageError: the template does not support thoughts.
        """
        try:
            return self.varied(chat=ChatTemplate(self.tokenizer, thinking=wish, markers=markers))
        except UsageError as error:
            raise UsageError(f"{self.name!r}: {error}") from error

    def varied(self, **parts: JSONValue) -> LoadedModel:
        """Return a model with the same weights and another engine or chat template."""
        other = replace(self, **parts)
        vars(other)["weights_key"] = self.weights_key  # computed once, and never while an engine fetches spread weights
        return other

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """All end-of-sequence ids of the generation configuration and the tokenizer that have a row in the table."""
        listed = getattr(self.model.generation_config, "eos_token_id", None)
        ids = [listed] if isinstance(listed, int) else list(listed or [])
        known = [id for id in [*ids, self.eos] if id is not None and 0 <= id < len(self.table)]
        return tuple(dict.fromkeys(known))

    @cached_property
    def sampling(self) -> Sampling:
        """The model's default sampling, completed as `transformers.generate` completes a generation configuration.

        `do_sample: false` means greedy. Without `do_sample` we sample at temperature 1, unlike transformers:
        agents of one model that all decode greedily would say the same.
        """
        config = self.model.generation_config
        usual = {"temperature": 1.0, "top_p": 1.0, "top_k": TOP_K, "repetition_penalty": 1.0}
        own = {name: value for name in usual if (value := getattr(config, name, None)) is not None}
        temperature, top_p, top_k, penalty = map(float, (usual | own).values())
        greedy = getattr(config, "do_sample", None) is False
        return Sampling(0.0 if greedy else temperature, top_p, int(top_k), penalty)

    @cached_property
    def weights_key(self) -> str:
        """A digest that is equal for models with the same weights, including scales of quantized weights."""
        return digest_of_all(tensors_of(self.model))

    @cached_property
    def vocabulary_key(self) -> str:
        """A digest of the tokenizer's vocabulary with its ids; the number of rows in the table does not count."""
        return vocabulary_digest(self.tokenizer)

    def latent_layers(self, chosen: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return the layers for the exchange of states, ascending: `chosen`, a paper's, or one near 0.7 of the depth.

        Raises:
            UsageError: a chosen layer is out of range.
        """
        for layer in chosen:
            if not 0 <= layer < self.layers:
                raise UsageError(f"layer {layer} is out of range; {self.name!r} has layers 0 to {self.layers - 1}")
        default = min(round(LATENT_DEPTH * self.layers), max(self.layers - 2, 0))
        return tuple(sorted(set(chosen))) or self.known_layers or (default,)

    @property
    def known_layers(self) -> tuple[int, ...]:
        """The layers that a paper chose for a model of this shape; empty if no paper did."""
        config = self.model.config.get_text_config()
        return KNOWN_LAYERS.get((config.model_type, self.layers, self.network.hidden, config.vocab_size), ())

    @cached_property
    def realignment(self) -> torch.Tensor:
        """The least-squares map (H, E) from states after the final norm to input embeddings (LatentMAS, section 3).

        Raises:
            UsageError: the output head has no matrix of floating-point numbers.
        """
        head = getattr(self.network.head, "weight", None)
        if not isinstance(head, torch.Tensor) or not head.is_floating_point() or head.dim() != 2:
            raise UsageError(f"the output head of {self.name!r} is stored packed; load it with weights auto to realign")
        with torch.inference_mode():
            w, e = head[: len(self.table)].float(), self.table.rows.float()
            ridge = RIDGE * torch.eye(w.shape[1], device=w.device)
            found: torch.Tensor = torch.linalg.solve(w.T @ w + ridge, w.T @ e)
        return found


def vocabulary_digest(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a digest that is equal for tokenizers that give every token the same id."""
    entries = sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0]))
    return hashlib.sha256(repr(entries).encode()).hexdigest()[:16]


class Base(NamedTuple):
    """A temperature and its source."""

    value: float
    why: str = ""
    """The source, for users; empty if the value comes from the model's own files."""
    sure: bool = True
    """False if nothing is known about this model."""


def default_sampling(loaded: LoadedModel) -> Sampling:
    """Return the sampling settings of drawn tokens: the model's files first, then the catalogue."""
    own = replace(loaded.sampling, temperature=drawn_temperature(loaded).value)
    return replace(own, top_p=top_p.value) if (top_p := known_top_p(loaded)) else own


def drawn_temperature(loaded: LoadedModel) -> Base:
    """Return the temperature of drawn tokens: from the files, the catalogue, the model's family, or the usual one."""
    if loaded.model.generation_config.temperature is not None or loaded.sampling.temperature == 0:
        return Base(loaded.sampling.temperature)
    if known := defaults_of(loaded.name):
        return Base(known.temperature, known.source)
    return _of_family(loaded) or Base(USUAL, "the usual temperature of chat models", sure=False)


def known_top_p(loaded: LoadedModel) -> Base | None:
    """Return the catalogue's top-p if the model's files name none."""
    known = defaults_of(loaded.name)
    silent = getattr(loaded.model.generation_config, "top_p", None) is None
    return Base(known.top_p, known.source) if known and silent else None


def base_temperature(loaded: LoadedModel) -> Base:
    """Return the base temperature of means: from files, the family, a measurement, or a cautious default."""
    if named := loaded.model.generation_config.temperature:  # even if the files do not sample
        return Base(named)
    if family := _of_family(loaded):
        return family
    if known := MEASURED.get(loaded.weights_key):
        return Base(known, "measured on these weights")
    return Base(CAUTIOUS, "a cautious choice", sure=False)


def _of_family(loaded: LoadedModel) -> Base | None:
    tokenizer = loaded.tokenizer
    begin = tokenizer.convert_tokens_to_ids("<|begin_of_text|>")  # asked for by name: a vocabulary takes long to list
    family = family_of(loaded.model.config.get_text_config().model_type, len(tokenizer), begin)
    return Base(PUBLISHED[family], f"published for the {family} family") if family else None


def family_of(model_type: str, size: int, begin: object) -> str | None:
    """Return a family of PUBLISHED, judged by vocabulary too: unrelated models share architectures, not tokenizers.

    `size` is the number of tokens, and `begin` the id of Llama 3's first one.
    """
    if model_type.startswith("qwen") and size >= 151_643:  # the BPE of Qwen's first models; later ones grew
        return "Qwen"
    if model_type == "llama" and begin == 128_000:
        return "Llama 3"
    return None
