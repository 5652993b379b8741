"""The operators of a pass that launch a kernel on an accelerator: in each decoder layer, and once a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel, StaticCache

from benchmarks.measuring import Options, Table
from sottovoce.models.engine.kv_cache import KVCache
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import Reading

FAMILIES = {"Llama": "llama", "Qwen2": "qwen2", "Qwen3": "qwen3", "Gemma-2": "gemma2", "Gemma-3": "gemma3_text"}
SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "head_dim": 8}
LAYERS = ("sliding_attention", "full_attention")
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

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # Any: as in torch
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
def theirs(model: PreTrainedModel, cache: Callable[..., DynamicCache | StaticCache]) -> list[Counter[str]]:
    """Return the operators of transformers' own passes over a cache, with left padding."""
    past, found = cache(config=model.config), []
    for at in (POSITIONS, POSITIONS[:, -1:] + 1):
        mask = torch.nn.functional.pad((POSITIONS >= 0).long(), (0, int(at.shape[1] == 1)), value=1)
        inputs = {"input_ids": torch.zeros_like(at), "attention_mask": mask, "position_ids": at.clamp(min=0)}
        with Operators() as operators:
            model(**inputs, past_key_values=past, logits_to_keep=1)
        found.append(operators.counts)
    return found


RIVALS: Mapping[str, Count] = {
    "ours": ours,
    "DynamicCache": partial(theirs, cache=DynamicCache),
    "StaticCache": partial(theirs, cache=partial(StaticCache, max_cache_len=COLUMNS)),
}


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


def tables(_: Options) -> Iterator[Table]:
    """Yield the operators of a layer and, in brackets, those once a pass."""
    found = {name: [shares(family, count) for count in RIVALS.values()] for name, family in FAMILIES.items()}
    for i, title in enumerate(PASSES):
        table = Table()
        table.add(f"operators a layer (once) in {title}, 8 rows of unequal length", *RIVALS)
        for name, each in found.items():
            totals = [(share[i].layer.total() / 2, share[i].once.total()) for share in each]
            table.add(name, *(f"{layer:g} ({once})" for layer, once in totals))
        yield table
