"""A forward pass as values: what it reads, and what it gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from sottovoce.models.huggingface.cache import Pages

FINAL = -1
"""Among layers: the last one's state after the final norm."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Queries (b, n) over a window of a KV cache."""

    inputs: torch.Tensor
    """Ids (b, n), or embeddings (b, n, E)."""
    positions: torch.Tensor
    columns: torch.Tensor
    """Where keys and values are written: the positions, but for padding."""
    span: torch.Tensor
    """0 .. c - 1: the columns that are looked at."""
    window: Pages
    plain: bool = False
    """True where no mask is needed: one query each that sees all columns, or whole prompts from column 0."""


@dataclass(frozen=True, eq=False)
class Pass:
    """What came of it."""

    logits: torch.Tensor
    """At the last position, over the tokenizer's vocabulary: (b, V) float32."""
    states: Mapping[int, torch.Tensor]
    """By layer: the state (b, H) of the last position."""
