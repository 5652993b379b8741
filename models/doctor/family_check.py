"""What the layers of a family attend to and count positions by, and which protocols that leaves."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from sottovoce.models.doctor.selftest import Finding
from sottovoce.models.huggingface.attention import counts_by_attention
from sottovoce.models.huggingface.family import LAYERS_READ_IDS, layers_read_ids, scalings, streams, unscaled


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
    found = []
    for kind in dict.fromkeys(kinds):
        at = [str(i) for i, each in enumerate(kinds) if each == kind]
        where = f"all {layers} layers" if len(at) == len(kinds) else f"layer{'s' * (len(at) > 1)} {', '.join(at)}"
        found.append(f"{words.get(kind, kind)} on {where}")
    return Finding("attention", None, "; ".join(found))


def _positions(model: PreTrainedModel) -> Finding:
    config = model.config.get_text_config()
    if counts_by_attention(config):
        return Finding("positions", None, "alibi: attention fades with distance")
    modules = list(model.modules())
    if any(type(module).__name__.endswith("RotaryEmbedding") for module in modules):
        kinds = sorted({str(scaling["rope_type"]) for scaling in scalings(model)} - {"default"})
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
