"""The rotation of a model's keys by their position, measured on one token, and keys rotated on to other positions.

A lone token sees only itself, so its states do not depend on its position: its keys at two positions differ by the
rotation between them, in every layer. What differs in another way is not a rotary model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import DynamicCache, PreTrainedModel

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import EngineError, ModelError
from sottovoce.models.huggingface.embedding_table import Table
from sottovoce.models.huggingface.family import cache_argument

BASE = 10000.0  # of the angles of GPT-J and CodeGen, which keep tables of sines and cosines instead of frequencies
APART = 5  # positions between the two measurements
SINGLE, HALF = 1e-3, 5e-2  # of a key's length: what float32 and half precision may lose
UNPLACED = "has keys without positions, as models that measure distances in the prompt (ALiBi)"
Style = Literal["halves", "pairs"]
"""Which coordinates turn together: i and i + half (Llama), or 2i and 2i + 1 (GPT-J, Cohere)."""


@dataclass(frozen=True, eq=False)
class _Turn:
    """The rotation of one layer: the angles between neighboring positions, (rotated width / 2,)."""

    angles: torch.Tensor
    style: Style


@dataclass(frozen=True, eq=False)
class Rotary:
    """The rotations of a model's layers."""

    turns: Sequence[_Turn | None]
    """By layer; None for a layer whose keys have no positions."""

    @classmethod
    def of(cls, model: PreTrainedModel, table: Table) -> Rotary:
        """Measure the rotations on the longest row of the embedding table, since a padding token may have zeros.

        Raises:
            EngineError: keys are not finite: the weights have NaN, or the dtype is too narrow.
            ModelError: keys depend on positions in another way, or the rotations change with the length of the input.
        """
        config = model.config.get_text_config()
        if "dynamic" in str(getattr(config, "rope_parameters", None) or ""):
            raise _unmoved(model, "does not turn its keys by fixed angles: they change with the length of the input")
        buffers = [buffer for name, buffer in model.named_buffers() if name.endswith("inv_freq")]
        widths = {buffer.shape[1] for name, buffer in model.named_buffers() if name.endswith("embed_positions")}
        known: list[_Turn | None] = [None]
        known += [_Turn(buffer.detach().cpu().double(), style) for buffer in buffers for style in ("halves", "pairs")]
        known += [_Turn(BASE ** -(torch.arange(0, width, 2).double() / width), "pairs") for width in sorted(widths)]
        row = table.rows[table.rows.float().norm(dim=-1).argmax()]
        try:
            first, second = (_keys(model, at, row) for at in (0, APART))
        except TypeError as error:
            raise _unmoved(model, UNPLACED) from error  # it takes no positions
        if not all(keys.isfinite().all() for keys in (*first, *second)):
            raise EngineError(
                "the model's keys of one token were not finite (NaN); check the weights (`models doctor`) and the dtype"
            )
        pairs = list(zip(first, second, strict=True))
        best = [min(known, key=lambda turn: _apart(a, b, turn)) for a, b in pairs]
        worst = max(_apart(*pair, turn) for pair, turn in zip(pairs, best, strict=True))
        if worst > (SINGLE if row.dtype == torch.float32 else HALF):
            raise _unmoved(model, "does not turn its keys by fixed angles: it has learned positions, or other ones")
        if not any(best):
            raise _unmoved(model, UNPLACED)
        return cls(best)

    def turn(self, keys: torch.Tensor, layers: Sequence[int], by: torch.Tensor) -> torch.Tensor:
        """Return keys (l, heads, n, width) of layers, each position rotated on by `by` (n,) positions."""
        if not by.any():
            return keys
        if len({id(self.turns[layer]) for layer in layers}) == 1:
            return _turned(keys, self.turns[layers[0]], by)
        return torch.stack([_turned(each, self.turns[layer], by) for each, layer in zip(keys, layers, strict=True)])


def _unmoved(model: PreTrainedModel, why: str) -> ModelError:
    return ModelError(f"{type(model).__name__} {why}, so keys cannot be moved")


def _keys(model: PreTrainedModel, at: int, row: torch.Tensor) -> list[torch.Tensor]:
    """Return the keys (heads, 1, width) of one embedding row at a position, by layer."""
    cache = DynamicCache()
    places = torch.tensor([[at]], device=row.device)
    model(inputs_embeds=row[None, None], position_ids=places, **{cache_argument(model): cache})
    layers: list[Untyped] = list(cache.layers)
    return [layer.keys[0].float() for layer in layers]


def _apart(first: torch.Tensor, second: torch.Tensor, turn: _Turn | None) -> float:
    """Return how far a rotation of the first keys is from the second ones, as a share of their length."""
    if turn is not None and 2 * len(turn.angles) > first.shape[-1]:
        return math.inf
    return float((_turned(first, turn, torch.tensor([APART])) - second).norm() / second.norm())


def _turned(keys: torch.Tensor, turn: _Turn | None, by: torch.Tensor) -> torch.Tensor:
    """Return keys (..., n, width) rotated further by one layer's angles, computed in float32."""
    if turn is None:
        return keys
    angles = by.cpu().to(turn.angles)[:, None] * turn.angles
    cos, sin = (each.float().to(keys.device) for each in (angles.cos(), angles.sin()))
    width = 2 * len(turn.angles)
    part, rest = keys[..., :width].float(), keys[..., width:]
    if turn.style == "halves":
        a, b = part.chunk(2, dim=-1)
        new = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    else:
        a, b = part[..., 0::2], part[..., 1::2]
        new = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    return torch.cat([new.to(keys.dtype), rest], dim=-1)
