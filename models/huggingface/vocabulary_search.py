"""Searches over a vocabulary: on a CPU numpy is up to ten times as fast as torch (2.13), with the same results."""

from __future__ import annotations

import numpy as np
import torch


def argmax(values: torch.Tensor) -> torch.Tensor:
    """Return the ids (...) of the largest values (..., V); the first wins ties."""
    if not _on_cpu(values):
        return values.argmax(-1)
    return torch.from_numpy(np.asarray(values.numpy().argmax(-1)))


def count_nonzero(values: torch.Tensor) -> torch.Tensor:
    """Return the number (...) of nonzero values (..., V)."""
    if not _on_cpu(values):
        return values.count_nonzero(-1)
    return torch.from_numpy(np.asarray(np.count_nonzero(values.numpy(), axis=-1)))


def larger(values: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Return the indices (n,), in order, of flattened values (b, V) that exceed their row's bound (b, 1).

    On a GPU the host waits for their number.
    """
    if not _on_cpu(values):
        return (values > bounds).flatten().nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(values.numpy() > bounds.numpy()))


def _on_cpu(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and values.dtype != torch.bfloat16  # numpy has no bfloat16
