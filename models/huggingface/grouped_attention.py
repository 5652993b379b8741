"""Attention of a few queries per sequence where several heads share keys and values, without copies of these.

For more than one query, transformers copies the keys and values for each of the heads that share them, in every layer:
that takes longer than the rest of a short pass. For one query it makes the heads of a group queries of one head; here
this is done for a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import AttentionInterface, PreTrainedModel

NAME = "sottovoce_grouped"


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
    """Attend with queries (b, heads, n, width) to keys (b, groups, c, width); return (b, n, heads, width)."""
    b, heads, n, width = query.shape
    groups = key.shape[1]
    together = query.reshape(b, groups, heads // groups * n, width)
    mask = attention_mask.repeat(1, 1, heads // groups, 1)
    found = nn.functional.scaled_dot_product_attention(together, key, value, attn_mask=mask, scale=scaling)
    return found.reshape(b, heads, n, found.shape[-1]).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _grouped)


@contextmanager
def grouped(model: PreTrainedModel) -> Iterator[None]:
    """Attend without copies inside the block, if the model uses torch's attention by transformers' interface."""
    config = model.config.get_text_config()
    kind, heads = config._attn_implementation, getattr(config, "num_attention_heads", 1)
    shared = (getattr(config, "num_key_value_heads", None) or heads) < heads
    usual = kind == "sdpa" and model._supports_attention_backend and shared
    config._attn_implementation = NAME if usual else kind
    try:
        yield
    finally:
        config._attn_implementation = kind
