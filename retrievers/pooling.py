"""Vectors of texts from the hidden states of their tokens, as sentence-transformers pools them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.core.errors import ModelError
from sottovoce.core.regular_files import bytes_of

if TYPE_CHECKING:
    import torch

LEAST = 1e-9
"""Lower bound of a sum of weights, which avoids division by zero."""
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")


def pooled(hidden: torch.Tensor, mask: torch.Tensor, modes: Sequence[str], prompt: int = 0) -> torch.Tensor:
    """Pool hidden states (batch, token, number) to vectors (batch, number); those of several modes are concatenated.

    `mask` (batch, token) is 1 for tokens that are not padding. The first `prompt` tokens of each text are ignored.
    Weights of `weightedmean` are 1-based positions counted from the first token, including ignored ones.
    """
    import torch

    first = mask.int().argmax(1, keepdim=True)
    places = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    kept = mask.bool() & (places >= first + prompt)
    weights = {"mean": kept, "mean_sqrt_len_tokens": kept, "weightedmean": kept * (places - first + 1)}

    def vector(mode: str) -> torch.Tensor:
        if mode in weights:
            weight = weights[mode].to(hidden.dtype).unsqueeze(-1)
            total = weight.sum(1).clamp(min=LEAST)
            return (hidden * weight).sum(1) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)
        if mode == "max":
            return hidden.masked_fill(~kept.unsqueeze(-1), float("-inf")).amax(1)
        at = kept.int().argmax(1) if mode == "cls" else (places * kept).argmax(1)
        return hidden[torch.arange(len(hidden), device=hidden.device), at]

    return torch.cat([vector(mode) for mode in modes], dim=-1)


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Divide vectors (batch, number) by their lengths."""
    import torch

    return torch.nn.functional.normalize(vectors, dim=-1)


def linear(folder: Path) -> Any:  # Any: a torch module
    """Load a linear layer with its activation from a folder with config.json and model.safetensors.

    Raises:
        ModelError: it cannot be read, or has an unknown activation.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        said = json.loads(bytes_of(folder / "config.json"))
        layer = torch.nn.Linear(int(said["in_features"]), int(said["out_features"]), bias=bool(said.get("bias", True)))
        weights = load_file(folder / "model.safetensors")
        layer.load_state_dict({name.removeprefix("linear."): value.float() for name, value in weights.items()})
        activation = str(said.get("activation_function", "Tanh")).rpartition(".")[2]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"the linear layer in {str(folder)!r} cannot be read: {' '.join(str(error).split())}"
        ) from error
    if activation not in ACTIVATIONS:
        raise ModelError(f"{str(folder)!r} has the activation {activation!r}; expected one of {', '.join(ACTIVATIONS)}")
    return torch.nn.Sequential(layer, getattr(torch.nn, activation)()).eval().requires_grad_(False)
