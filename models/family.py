"""What the layers of a family attend to, count positions by, read and put out: what protocols and readers must know."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from sottovoce.models.finding import Finding

LAYERS_READ_IDS = "its layers look token ids up besides the embeddings"
ALIBI = ("bloom",)  # families whose configuration does not say so


def layers_read_ids(model: PreTrainedModel) -> bool:
    """True where embeddings alone do not say what was read (Gemma-3n, Gemma-4): no row can stand for a token."""
    return bool(getattr(model.config.get_text_config(), "hidden_size_per_layer_input", 0))


def streams(model: PreTrainedModel) -> int:
    """How many states a layer puts out for one position: 1, but in Gemma-3n several that take turns (AltUp)."""
    return int(getattr(model.config.get_text_config(), "altup_num_inputs", 1))


def unscaled(model: PreTrainedModel) -> int | None:
    """Positions after which rotary angles change for a whole batch and its past at once (longrope), or None.

    transformers 5.23 takes the other set of factors as soon as any row passes the length the model
    was trained on: rows beside it, and keys made before, would then fit no longer.
    """
    limits = [scaling.get("original_max_position_embeddings") for scaling in _scalings(model, "longrope")]
    return min((int(limit) for limit in limits if limit), default=None)


def family_findings(model: PreTrainedModel, layers: int) -> list[Finding]:
    """One line each: attention, positions, protocols."""
    return [_attention(model, layers), _positions(model), _protocols(model)]


def _attention(model: PreTrainedModel, layers: int) -> Finding:
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    alike = "sliding_attention" if window else "full_attention"
    kinds = list(getattr(config, "layer_types", None) or [alike] * layers)
    words = {
        "full_attention": "full",
        "sliding_attention": f"a sliding window of {window or 0:,} positions",
        "chunked_attention": f"chunks of {getattr(config, 'attention_chunk_size', None) or 0:,} positions",
    }
    found = [
        f"{words.get(kind, kind)} on {_listed([i for i, each in enumerate(kinds) if each == kind], len(kinds))}"
        for kind in dict.fromkeys(kinds)
    ]
    return Finding("attention", None, "; ".join(found))


def _positions(model: PreTrainedModel) -> Finding:
    config = model.config.get_text_config()
    by_attention = getattr(getattr(config, "attn_config", None), "alibi", False)
    if getattr(config, "alibi", False) or by_attention or config.model_type in ALIBI:
        return Finding("positions", None, "alibi: attention fades with distance")
    modules = list(model.modules())
    if any(type(module).__name__.endswith("RotaryEmbedding") for module in modules):
        kinds = sorted({str(scaling["rope_type"]) for scaling in _scalings(model)} - {"default"})
        scaled = f", scaled by {' and '.join(kinds)}" if kinds else ""
        limit = unscaled(model)
        until = f" past {limit:,} positions, for all rows at once: longer requests are refused" if limit else ""
        return Finding("positions", None, f"rotary{scaled}{until}")
    tables = [module for module in modules if isinstance(module, nn.Embedding)]
    learned = any(table is not model.get_input_embeddings() for table in tables)
    return Finding("positions", None, "learned" if learned else "of a kind of its own")


def _protocols(model: PreTrainedModel) -> Finding:
    refused = []
    if layers_read_ids(model):
        refused.append(("cipher", LAYERS_READ_IDS))
    if streams(model) > 1:
        refused += [(name, f"its layers put out {streams(model)} states a position") for name in ("sde", "hidden")]
    names = [name for name in ("nl", "cipher", "sde", "hidden") if name not in dict(refused)]
    why = "".join(f"; no {name}: {reason}" for name, reason in refused)
    return Finding("protocols", None if refused else True, ", ".join(names) + why)


def _scalings(model: PreTrainedModel, kind: str | None = None) -> list[dict[str, Any]]:  # Any: a configuration's own
    """The rotary parameters: one set, or one for each kind of layer."""
    config: PreTrainedConfig = model.config.get_text_config()
    found = getattr(config, "rope_parameters", None) or {}
    sets = [found] if "rope_type" in found else [each for each in found.values() if isinstance(each, dict)]
    return [each for each in sets if kind in (None, each.get("rope_type"))]


def _listed(at: Sequence[int], layers: int) -> str:
    """Layers in words: neighbours as a range."""
    if len(at) == layers:
        return f"all {layers} layers"
    starts = [at[0], *(right for left, right in pairwise(at) if right > left + 1)]
    ends = [*(left for left, right in pairwise(at) if right > left + 1), at[-1]]
    ranges = [str(start) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True)]
    return f"layer{'s' * (len(at) > 1)} {', '.join(ranges)}"
