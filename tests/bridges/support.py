"""Two tiny models that share nothing: depth, width, heads, tokens and template; and bridges between them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from sottovoce.bridges.fit import Settings, fit
from sottovoce.bridges.refine import head_tensors
from sottovoce.bridges.texts import FACTS
from sottovoce.channels.bridge_files import Label, Side, save_bridge
from sottovoce.models import LoadedModel, assemble
from tests.support import tiny_loaded, tiny_model, trained_tokenizer

SIZE = 420
HUMAN = (
    "{% for message in messages %}<|im_start|># {{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|># reply: {% endif %}"
)
STEPS, TOKENS = 4, 550


@cache
def other_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of other pieces than the tiny one, with another template."""
    known = [part for fact, *questions in FACTS for part in (fact, *(part for pair in questions for part in pair))]
    return trained_tokenizer(known, SIZE, HUMAN)


@cache
def narrow() -> LoadedModel:
    """Two layers, two heads of 8."""
    return tiny_loaded(max_position_embeddings=4096)


@cache
def deep() -> LoadedModel:
    """Three layers, one head of 16, of another family."""
    shape = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1}
    model = tiny_model("llama", seed=1, vocab_size=SIZE, max_position_embeddings=4096, **shape)
    return assemble("deep", model, other_tokenizer())


def quick(**more: Any) -> Settings:
    """Settings of a fit that takes less than a second."""
    return Settings(**{"steps": STEPS, "tokens": TOKENS, "questions": 2, **more})


def fitted(sender: LoadedModel, receiver: LoadedModel, folder: Path, **more: Any) -> Label:
    """Fit a bridge into a folder in a few steps."""
    return fit(sender, receiver, folder, quick(**more), lambda what, share: None)


def drawn(sender: LoadedModel, receiver: LoadedModel, seed: int = 0) -> tuple[Label, dict[str, torch.Tensor]]:
    """A bridge of random numbers: its label and tensors."""
    head = head_tensors(receiver)
    ends, h = (Side.of(sender), Side.of(receiver)), head["head_keys"].shape[2]
    label = Label(*ends, digest="", texts="", tokens=0, seed=0, steps=0, planned=0, head=h)
    chance = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(shape, generator=chance) for name, (shape, _) in label.shapes().items()}
    tensors |= {**head, "weight": tensors["weight"].bfloat16(), "scale": tensors["scale"].abs() + 0.1}
    return label, tensors


def random_bridge(sender: LoadedModel, receiver: LoadedModel, folder: Path, seed: int = 0) -> Label:
    """Write a bridge of random numbers into a folder."""
    return save_bridge(folder, *drawn(sender, receiver, seed))
