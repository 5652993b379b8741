"""The peculiarities of model families: mask forms, layers that read ids, positions that change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from sottovoce.core.errors import ModelError

Mask = torch.Tensor | dict[str, torch.Tensor] | None
FULL, SLIDING = "full_attention", "sliding_attention"
Form = Literal["bool", "added", "columns"]

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


@dataclass(frozen=True)
class Attention:
    """How a model attends, as far as its masks are concerned."""

    form: Form
    """"bool": True for visible keys. "added": 0 for them and the lowest number elsewhere. "columns": the columns in
    use, (b, columns), for families that count positions from the mask (alibi).
    """
    window: int | None
    """Number of last keys that a query sees in the windowed layers, itself included."""
    kinds: tuple[str, ...]
    """The kinds of layers, if the family takes one mask for each kind."""
    dtype: torch.dtype

    @classmethod
    def of(cls, model: PreTrainedModel) -> Attention:
        """Return the attention that the configuration describes; refuse one that our masks cannot express."""
        config = model.config.get_text_config()
        implementation = config._attn_implementation
        if implementation not in ("sdpa", "eager"):
            raise ModelError(
                f"{type(model).__name__} uses the attention {implementation!r}, which takes no mask for each sequence; "
                "load it with attn_implementation 'sdpa' or 'eager'"
            )
        kinds = tuple(sorted(set(getattr(config, "layer_types", None) or ())))
        if unknown := set(kinds) - {FULL, SLIDING}:
            raise ModelError(
                f"{type(model).__name__} has layers of {', '.join(sorted(unknown))}; "
                f"expected {FULL} or {SLIDING}: use another model"
            )
        window = getattr(config, "sliding_window", None) if not kinds or SLIDING in kinds else None
        alibi = getattr(config, "alibi", False) or config.model_type == "bloom"
        form: Form = "columns" if alibi else "bool" if implementation == "sdpa" else "added"
        return cls(form, window, kinds if SLIDING in kinds else (), model.dtype)

    @property
    def alone(self) -> bool:
        """True if prompts must be read one by one, because the mask cannot tell where each one's queries begin."""
        return self.form == "columns"

    def mask(self, positions: torch.Tensor, span: torch.Tensor, hidden: torch.Tensor | None = None) -> Mask:
        """Return the mask of queries at positions (b, n) over the columns of `span` (c,), 0 .. c - 1.

        Columns in `hidden` (b, c) are masked for all.
        """
        if self.form == "columns":
            return (span <= positions[:, -1:]).long()
        seen = span <= positions[:, None, :, None]  # (b, 1, n, c)
        seen = seen if hidden is None else seen & ~hidden[:, None, None]
        if self.window is None:
            return self._formed(seen)
        near = self._formed(seen & (span > positions[:, None, :, None] - self.window))
        return {FULL: self._formed(seen), SLIDING: near} if self.kinds else near

    def _formed(self, seen: torch.Tensor) -> torch.Tensor:
        if self.form == "bool":
            return seen
        lowest = torch.full((), torch.finfo(self.dtype).min, dtype=self.dtype, device=seen.device)
        return torch.where(seen, torch.zeros_like(lowest), lowest)
