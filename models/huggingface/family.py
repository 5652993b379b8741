"""What a family does otherwise than most: layers that read ids, several states a position, changing positions."""

from __future__ import annotations

from transformers import PreTrainedConfig, PreTrainedModel

LAYERS_READ_IDS = "its layers look token ids up besides the embeddings"


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
    config: PreTrainedConfig = model.config.get_text_config()
    found = getattr(config, "rope_parameters", None) or {}
    sets = [found] if "rope_type" in found else [each for each in found.values() if isinstance(each, dict)]
    longrope = [each for each in sets if each.get("rope_type") == "longrope"]
    limits = [each.get("original_max_position_embeddings") for each in longrope]
    return min((int(limit) for limit in limits if limit), default=None)
