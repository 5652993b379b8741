"""The models of the conformance tests: the bundled one, and three that differ from it, made in memory once."""

from __future__ import annotations

import copy
from functools import cache
from typing import Literal

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from sottovoce.models import LoadedModel, assemble, load

Difference = Literal["other weights", "other shape", "other vocabulary"]
"""How a hearer differs from the speaker; each keeps the rest, except that weights differ in all three."""
DIFFERENCES: tuple[Difference, ...] = ("other weights", "other shape", "other vocabulary")
SPREAD = 0.1  # of the random weights; the default 0.02 leaves a distribution nearly flat


def bundled() -> LoadedModel:
    """The bundled model on the CPU, where the float32 tolerances hold."""
    return load(device="cpu")


@cache
def other(difference: Difference) -> LoadedModel:
    """A model with random weights that differs from the bundled one as its name says."""
    loaded = bundled()
    config = copy.deepcopy(loaded.model.config)
    config.initializer_range = SPREAD
    if difference == "other shape":
        config.hidden_size = 96  # as many layers: a protocol may name some
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(DIFFERENCES.index(difference))
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    tokenizer = _bytes(loaded.tokenizer) if difference == "other vocabulary" else loaded.tokenizer
    return assemble(difference, model, tokenizer)


def _bytes(like: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are single bytes, with the template and the special tokens of another.

    It has as many tokens: the other's ids are in its range, and only their meaning is wrong.
    """
    special = sorted(like.added_tokens_decoder)
    tokens = [str(like.added_tokens_decoder[id]) for id in special]
    tokens += sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens += [f"unused {n}" for n in range(len(tokens), len(like))]
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(tokens[: len(special)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=like.eos_token,
        pad_token=like.pad_token,
        chat_template=like.chat_template,
    )
