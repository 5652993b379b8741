"""Which weights make logits that are no numbers, and in which file they lie: asked when it has happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import PreTrainedModel

from sottovoce.errors import ModelError
from sottovoce.models.huggingface.sound import shapes
from sottovoce.models.sources.sums import changed

ABSURD = 1e6
"""No weight of a trained model comes near it; a flipped bit of an exponent goes far beyond."""
SCALES = ".scales"
"""Buffers of packed weights."""


def unsound(model: PreTrainedModel) -> str:
    """A clause that names the weights that cannot be meant, and their file; empty where none are found.

    It reads the files where their digests are known, and else every weight that is on a device.
    """
    folder = Path(model.name_or_path or "")
    if model.name_or_path and (files := changed(folder)):
        return f"{str(folder / files[0])!r} is not what it was when its digest was taken; fetch it again"
    for name, value in _weights(model):
        low, high = value.aminmax()
        most = max(-float(low), float(high))
        if not most < ABSURD:  # nan is not less either
            holds = f"{_file(folder, name)} {name!r} with values up to {most:g}"
            return f"{holds}; expected finite and small ones, fetch it again"
    return ""


def _weights(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    scales = ((name, each) for name, each in model.named_buffers() if name.endswith(SCALES))
    for name, value in (*model.named_parameters(), *scales):  # other buffers may hold -inf for a reason
        if value.is_floating_point() and value.numel() and not value.is_meta:
            yield name, value


def _file(folder: Path, tensor: str) -> str:
    try:
        files = {name: file for name, (file, _) in shapes(str(folder), folder).items()}
    except ModelError:
        files = {}
    return f"{str(folder / files[tensor])!r} holds" if tensor in files else "the model holds"
