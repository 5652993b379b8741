"""The peculiarities of model families: mask forms, layers that read ids, positions that change."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from sottovoce.core.errors import ModelError

Mask = torch.Tensor | dict[str, torch.Tensor] | None
FULL, SLIDING = "full_attention", "sliding_attention"
Form = Literal["added", "columns"]

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
    """Return the name of the argument by which a model takes its cache: `cache` from transformers 5.24 on."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


@dataclass(frozen=True)
class Attention:
    """How a model attends, as far as its masks are concerned."""

    form: Form
    """"added": 0 for visible keys, and elsewhere -inf (sdpa) or the lowest number (eager). sdpa would turn booleans
    into such numbers again in each layer, by three operators. "columns": the columns in use, (b, columns), for families
    that count positions from the mask (alibi).
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
                f"{type(model).__name__} uses the attention {implementation!r}, which takes no mask for each sequence; "
                "load it with attn_implementation 'sdpa' or 'eager'"
            )
        kinds = tuple(getattr(config, "layer_types", None) or ())
        if unknown := set(kinds) - {FULL, SLIDING}:
            raise ModelError(
                f"{type(model).__name__} has layers of {', '.join(sorted(unknown))}; "
                f"expected {FULL} or {SLIDING}: use another model"
            )
        window = getattr(config, "sliding_window", None) if not kinds or SLIDING in kinds else None
        alibi = getattr(config, "alibi", False) or config.model_type == "bloom"
        kinds = kinds if SLIDING in kinds else ()
        return cls("columns" if alibi else "added", implementation == "sdpa", window, kinds)

    @property
    def alone(self) -> bool:
        """True if prompts must be read one by one, because the mask cannot tell where each one's queries begin."""
        return self.form == "columns"

    def masks_all(self, columns: int) -> bool:
        """Return True if a pass over so many columns needs a mask even where each query sees all before it."""
        return self.window is not None and not (self.sdpa and columns < self.window)

    def mask(
        self, positions: torch.Tensor, span: torch.Tensor, dtype: torch.dtype, hidden: torch.Tensor | None = None
    ) -> Mask:
        """Return the mask of queries at positions (b, n) over the columns of `span` (c,), 0 .. c - 1.

        Columns in `hidden` (b, c) are masked for all. `dtype` is that of the queries.
        """
        if self.form == "columns":
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
