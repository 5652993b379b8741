"""The peculiarities of model families: mask forms, grouped heads, layers that read ids, positions that change."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel

from sottovoce.core.errors import ModelError

Mask = torch.Tensor | dict[str, torch.Tensor] | None
FULL, SLIDING = "full_attention", "sliding_attention"
GROUPED = "sottovoce_grouped"

TESTED = {
    *("llama", "qwen2", "qwen3", "granite", "olmo2", "stablelm", "gpt_neox", "mistral", "phi3", "gemma2"),
    *("gemma3_text", "gpt2", "opt", "falcon", "bloom", "mpt", "gemma3n_text", "gemma4_text"),
}
"""The families of `tests/models/test_families.py`: a batch of theirs gives what each row gives alone."""
LAYERS_READ_IDS = "its layers look token ids up besides the embeddings"


def layers_read_ids(model: PreTrainedModel) -> bool:
    """Return True if layers also read token ids (Gemma-3n, Gemma-4), so that an embedding cannot replace a token."""
    return bool(getattr(model.config.get_text_config(), "hidden_size_per_layer_input", 0))


def streams(model: PreTrainedModel) -> int:
    """Return the number of states of a layer per position: 1, except in Gemma-3n, which alternates several (AltUp)."""
    return int(getattr(model.config.get_text_config(), "altup_num_inputs", 1))


def unscaled(model: PreTrainedModel) -> int | None:
    """Return the position after which rotary angles change for a whole batch and its past (longrope), or None.

    transformers 5.23 uses the other set of factors as soon as any row exceeds the length the model was trained on:
    the other rows of the batch, and keys computed before, would no longer fit.
    """
    config: PreTrainedConfig = model.config.get_text_config()
    found = getattr(config, "rope_parameters", None) or {}
    sets = [found] if "rope_type" in found else [each for each in found.values() if isinstance(each, dict)]
    longrope = [each for each in sets if each.get("rope_type") == "longrope"]
    limits = [each.get("original_max_position_embeddings") for each in longrope]
    return min((int(limit) for limit in limits if limit), default=None)


def cache_argument(model: PreTrainedModel) -> str:
    """Return the name of a model's argument for its cache: `cache` from transformers 5.24 on."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


@dataclass(frozen=True)
class Attention:
    """The properties of a model's attention that matter for masks."""

    alone: bool
    """True for families that count positions from the mask (alibi): it has the columns in use, (b, columns), and cannot
    tell where each sequence's queries begin, so prompts are read one by one.
    """
    sdpa: bool
    """False if attention is eager, which always adds a mask."""
    window: int | None
    """Number of last keys that a query sees in the windowed layers, itself included."""
    kinds: tuple[str, ...]
    """The kind of each layer, if the family takes one mask for each kind."""

    @classmethod
    def of(cls, model: PreTrainedModel) -> Attention:
        """Return the attention that the configuration describes; refuse one that our masks cannot express."""
        config = model.config.get_text_config()
        implementation = config._attn_implementation
        if implementation not in ("sdpa", "eager"):
            raise ModelError(
                f"{type(model).__name__} uses the attention {implementation!r}, which accepts no mask per sequence; "
                "load it with attn_implementation 'sdpa' or 'eager'"
            )
        kinds = tuple(getattr(config, "layer_types", None) or ())
        if unknown := set(kinds) - {FULL, SLIDING}:
            raise ModelError(
                f"{type(model).__name__} has layers of {', '.join(sorted(unknown))}; "
                f"expected {FULL} or {SLIDING}: use another model"
            )
        window = getattr(config, "sliding_window", None) if not kinds or SLIDING in kinds else None
        alibi = bool(getattr(config, "alibi", False)) or config.model_type == "bloom"
        kinds = kinds if SLIDING in kinds else ()
        return cls(alibi, implementation == "sdpa", window, kinds)

    def mask(
        self, positions: torch.Tensor, span: torch.Tensor, dtype: torch.dtype, hidden: torch.Tensor | None = None
    ) -> Mask:
        """Return the mask of queries at positions (b, n) over the columns of `span` (c,), 0 .. c - 1.

        Columns in `hidden` (b, c) are masked for all. `dtype` is that of the queries. Visible keys have 0, and others
        -inf (sdpa) or the lowest number (eager): sdpa would turn booleans into such numbers in each layer again.
        """
        if self.alone:
            return (span <= positions[:, -1:]).long()
        seen = span <= positions[:, None, :, None]  # (b, 1, n, c)
        seen = seen if hidden is None else seen & ~hidden[:, None, None]
        lowest = torch.full((), -math.inf if self.sdpa else torch.finfo(dtype).min, dtype=dtype, device=seen.device)
        zero = torch.zeros_like(lowest)
        full = torch.where(seen, zero, lowest) if self.window is None or self.kinds else None
        if self.window is None:
            return full
        near = torch.where(seen & (span > positions[:, None, :, None] - self.window), zero, lowest)
        return {FULL: full, SLIDING: near} if full is not None else near


def _grouped(
    _module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    scaling: float | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Attend with queries (b, heads, n, width) to keys (b, groups, c, width); return (b, n, heads, width).

    For more than one query, transformers copies the keys and values for each of the heads that share them, in every
    layer; that takes longer than the rest of a short pass. For one query it turns the heads of a group into queries of
    one head. This function does the same for a few queries.
    """
    b, heads, n, width = query.shape
    groups = key.shape[1]
    together = query.reshape(b, groups, heads // groups * n, width)
    mask = attention_mask.repeat(1, 1, heads // groups, 1)
    found = nn.functional.scaled_dot_product_attention(together, key, value, attn_mask=mask, scale=scaling)
    return found.reshape(b, heads, n, found.shape[-1]).transpose(1, 2).contiguous(), None


AttentionInterface.register(GROUPED, _grouped)


@contextmanager
def grouped(model: PreTrainedModel) -> Iterator[None]:
    """Attend without copies inside the block, if the model uses torch's attention by transformers' interface."""
    config = model.config.get_text_config()
    kind, heads = config._attn_implementation, getattr(config, "num_attention_heads", 1)
    shared = (getattr(config, "num_key_value_heads", None) or heads) < heads
    usual = kind == "sdpa" and model._supports_attention_backend and shared
    config._attn_implementation = GROUPED if usual else kind
    try:
        yield
    finally:
        config._attn_implementation = kind
