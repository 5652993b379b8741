"""Looking through a vocabulary: on a CPU numpy is up to ten times as fast as torch (2.13) and finds the same."""

from __future__ import annotations

import numpy as np
import torch


def argmax(values: torch.Tensor) -> torch.Tensor:
    """Ids (...) of the largest of values (..., V); first wins ties."""
    if not _on_cpu(values):
        return values.argmax(-1)
    return torch.from_numpy(np.asarray(values.numpy().argmax(-1)))


def count_nonzero(values: torch.Tensor) -> torch.Tensor:
    """How many of values (..., V) are not 0: (...)."""
    if not _on_cpu(values):
        return values.count_nonzero(-1)
    return torch.from_numpy(np.asarray(np.count_nonzero(values.numpy(), axis=-1)))


def larger(values: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Where values (b, V) exceed their row's bound (b, 1): indices (n,) into the flattened values, in order.

    On a GPU the host waits for their number.
    """
    if not _on_cpu(values):
        return (values > bounds).flatten().nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(values.numpy() > bounds.numpy()))


def _on_cpu(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and values.dtype != torch.bfloat16  # a type that numpy does not know
