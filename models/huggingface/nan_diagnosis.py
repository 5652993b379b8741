"""Diagnosis of nonfinite logits: the damaged weights and their file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import PreTrainedModel

from sottovoce.core.errors import ModelError
from sottovoce.models.huggingface.checkpoint_check import shapes
from sottovoce.models.sources.checksum import changed

ABSURD = 1e6
"""Far above all weights of a trained model, and far below one with a flipped exponent bit."""
SCALES = ".scales"
"""Suffix of buffers of packed weights."""


def unsound(model: PreTrainedModel) -> str:
    """Return a clause that names damaged weights and their file; empty if none are found.

    If the digests of the files are known, it reads the files; otherwise it checks every weight on a device.
    """
    folder = Path(model.name_or_path or "")
    if model.name_or_path and (files := changed(folder)):
        return f"{str(folder / files[0])!r} is not what it was when its digest was recorded; fetch it again"
    for name, value in _weights(model):
        low, high = value.aminmax()
        most = max(-float(low), float(high))
        if not most < ABSURD:  # also true for NaN
            holds = f"{_file(folder, name)} {name!r} with values up to {most:g}"
            return f"{holds}; expected finite and small ones, fetch it again"
    return ""


def _weights(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    scales = ((name, each) for name, each in model.named_buffers() if name.endswith(SCALES))
    for name, value in (*model.named_parameters(), *scales):  # other buffers may contain -inf on purpose
        if value.is_floating_point() and value.numel() and not value.is_meta:
            yield name, value


def _file(folder: Path, tensor: str) -> str:
    try:
        files = {name: file for name, (file, _) in shapes(str(folder), folder).items()}
    except ModelError:
        files = {}
    return f"{str(folder / files[tensor])!r} holds" if tensor in files else "the model holds"
