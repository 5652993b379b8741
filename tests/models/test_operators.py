"""The operators of a pass that launch a kernel on an accelerator: no more than those of transformers' own modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

from sottovoce.core.any_types import Untyped
from sottovoce.models.engine.cache import KVCache
from sottovoce.models.huggingface.family import cache_argument
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import Reading
from tests.tables import some

FAMILIES = {"Llama": "llama", "Qwen2": "qwen2", "Qwen3": "qwen3", "Gemma-2": "gemma2", "Gemma-3": "gemma3_text"}
SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "head_dim": 8}
LAYERS = ("sliding_attention", "full_attention")
families = pytest.mark.parametrize("family", some([*FAMILIES], "Qwen3", "Gemma-3"))
PASSES = ("prompts", "a decoding step")
POSITIONS = torch.arange(8)[:, None] + torch.arange(-7, 11)  # of 8 prompts; those below 0 are padding
COLUMNS = 32
FREE = ("_unsafe_view", "detach", "lift_fresh", "empty", "empty_like", "empty_strided", "new_empty")
Count = Callable[[PreTrainedModel], list[Counter[str]]]
"""The operators of each of `PASSES`, by name."""


class Operators(TorchDispatchMode):
    """The operators that were called inside the block, except for views and allocations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Untyped, types: Untyped, args: Untyped = (), kwargs: Untyped = None) -> Untyped:
        name = func.overloadpacket.__name__
        self.counts[name] += not func.is_view and name not in FREE
        return func(*args, **(kwargs or {}))


class Share(NamedTuple):
    """The operators of a pass, by name."""

    layer: Counter[str]
    """In two decoder layers: Gemma has two kinds of layers."""
    once: Counter[str]


@torch.no_grad()  # in inference mode the composite operators would be counted instead of their parts
def ours(model: PreTrainedModel) -> list[Counter[str]]:
    """Return the operators of our passes."""
    network, found = Network(model, SIZES["vocab_size"]), []
    cache = KVCache(network.kinds)
    cache.resize(len(POSITIONS), COLUMNS, ())
    for at in (POSITIONS, POSITIONS[:, -1:] + 1):
        span, columns = torch.arange(int(at.max()) + 1), at.where(at >= 0, COLUMNS)
        reading = Reading(torch.zeros_like(at), at.clamp(min=0), columns, span, cache.window(0, len(at)))
        with Operators() as operators:
            network.forward(reading)
        found.append(operators.counts)
    return found


@torch.no_grad()
def theirs(model: PreTrainedModel) -> list[Counter[str]]:
    """Return the operators of transformers' own passes over its cache, with left padding."""
    past, found = DynamicCache(config=model.config), []
    for at in (POSITIONS, POSITIONS[:, -1:] + 1):
        mask = torch.nn.functional.pad((POSITIONS >= 0).long(), (0, int(at.shape[1] == 1)), value=1)
        inputs = {"input_ids": torch.zeros_like(at), "attention_mask": mask, "position_ids": at.clamp(min=0)}
        with Operators() as operators:
            model(**inputs, **{cache_argument(model): past}, logits_to_keep=1)
        found.append(operators.counts)
    return found


def shares(family: str, count: Count) -> list[Share]:
    """Return the operators of each of `PASSES`, from tiny models of two and of four layers."""
    two, four = (count(_model(family, layers)) for layers in (2, 4))
    return [Share(b - a, a - (b - a)) for a, b in zip(two, four, strict=True)]


def _model(family: str, layers: int) -> PreTrainedModel:
    kinds = {"layer_types": [*LAYERS] * (layers // 2), "sliding_window": 8} if "gemma" in family else {}
    config = AutoConfig.for_model(family, num_hidden_layers=layers, num_key_value_heads=2, **SIZES, **kinds)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    model.eval().requires_grad_(False)
    return model


@cache
def counted(family: str, count: Count = ours) -> dict[str, Share]:
    return dict(zip(PASSES, shares(FAMILIES[family], count), strict=True))


@pytest.mark.parametrize("pass_", PASSES)
@families
def test_a_layer_has_no_more_operators_than_in_transformers(family: str, pass_: str) -> None:
    own, other = (counted(family, count)[pass_] for count in (ours, theirs))
    assert 0 < own.layer.total() <= other.layer.total() and own.once.total() <= other.once.total()


@pytest.mark.parametrize("pass_", PASSES)
@families
def test_a_mask_is_made_once_a_pass_and_not_in_each_layer(family: str, pass_: str) -> None:
    share = counted(family)[pass_]
    assert share.once["where"] and not share.layer["where"]


@families
def test_the_logits_of_several_prompts_are_one_product(family: str) -> None:
    # Gemma-2's eager attention has products of batches.
    assert family == "Gemma-2" or not counted(family)["prompts"].once["bmm"]
