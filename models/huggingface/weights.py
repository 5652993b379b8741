"""The tensors that a model consists of, wherever they lie and however they are packed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from sottovoce.models.huggingface.table import tensor_digest

SPACED = 64  # values of each tensor that are looked at


def weights_digest(model: nn.Module) -> str:
    """A digest of every tensor's name, shape, dtype and 64 spaced values: the same weights or not.

    Scales of quantised weights count too. Weights that accelerate has put aside are fetched in turn,
    which must not happen while the model computes.
    """
    digest = hashlib.sha256()
    for name, tensor in _tensors(model):
        flat = tensor.reshape(-1)
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype};".encode())
        digest.update(tensor_digest(flat[:: max(1, len(flat) // SPACED)]).encode())
    return digest.hexdigest()[:16]


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """What a checkpoint holds, module by module."""
    for path, module in model.named_modules():
        below = tuple(f"{child}." for child, _ in module.named_children())
        with _fetched(module):
            for name, tensor in module.state_dict().items():
                if isinstance(tensor, torch.Tensor) and not name.startswith(below):
                    yield from _plain(f"{path}.{name}", tensor)


def _plain(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """A tensor, or the plain ones that a packed one (torchao) is made of."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield name, tensor
        return
    for part in tensor.__tensor_flatten__()[0]:
        yield from _plain(f"{name}.{part}", getattr(tensor, part))


def _fetched(module: nn.Module) -> AbstractContextManager[None]:
    """The module's own weights at hand, where accelerate keeps them elsewhere."""
    if not hasattr(module, "_hf_hook"):
        return nullcontext()
    from accelerate.utils import align_module_device  # late: an extra, and whoever set the hook has it

    fetched: AbstractContextManager[None] = align_module_device(module)
    return fetched
