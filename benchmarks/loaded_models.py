"""The measured model: the bundled one, or random weights of a shape, created on their device."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config

from sottovoce.models import Engine, LoadedModel, assemble, load
from sottovoce.models.huggingface.formats import Weights
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.onednn_linear import OneDNNLinear

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BUNDLED = "bundled"
SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)
SHAPES = {"tiny": (640, 32, 64, 6, 2, 1), "7b": (152064, 3584, 18944, 28, 28, 4)}  # 7b: Qwen2.5-7B


def loaded_of(shape: str, device: str, weights: Weights = "auto") -> LoadedModel:
    """Return a model by name, or random weights of a shape: bfloat16 on an accelerator, float32 on a CPU."""
    if shape not in SHAPES:
        return load(shape, device=device, weights=weights)
    sizes: dict[str, Any] = dict(zip(SIZES, SHAPES[shape], strict=True))  # Any: as the configuration takes them
    config = Qwen2Config(max_position_embeddings=4096, eos_token_id=2, pad_token_id=0, **sizes)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return assemble(shape, model, _tokenizer(config.vocab_size))


def with_engine(
    loaded: LoadedModel, kind: type[Engine] = Engine, network: Network | None = None, **limits: Any
) -> LoadedModel:  # Any: keyword arguments of an engine
    """Return the same weights with a new engine."""
    return replace(loaded, engine=kind(network or loaded.network, loaded.tokenizer, **limits))


def as_published(loaded: LoadedModel) -> LoadedModel:
    """Return the same weights in transformers' own modules, which the rivals compute with."""
    shared = {id(each): each for each in (*loaded.model.parameters(), *loaded.model.buffers())}
    model = deepcopy(loaded.model, shared)
    for module in model.modules():
        if isinstance(module, OneDNNLinear):
            module.__class__ = nn.Linear  # type: ignore[assignment]  # what it was before
    return replace(loaded, model=model)


def _tokenizer(size: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for every row of the table, bytes included; fewer would be cheaper."""
    alphabet = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words = [*alphabet, *(f"word{i}" for i in range(size - len(alphabet)))]
    plain = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(list(SPECIAL))
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHATML
    )
