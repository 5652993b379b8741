"""How much memory keys and values may take, how to tell that there was too little, and how to get numbers there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from sottovoce.models.slots import Kind

ON_CPU, ON_ACCELERATOR = 0.25, 0.7  # of what is free as the engine starts; the rest is for passes and payloads
UNKNOWN = 4 << 30  # bytes, where the system does not say


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return UNKNOWN


def default_budget(kinds: Sequence[Kind]) -> int:
    """Bytes for keys and values where nobody says: as many as the fullest of a model's devices has room for."""
    share: dict[torch.device, int] = {}
    for kind in kinds:
        share[kind.device] = share.get(kind.device, 0) + kind.nbytes
    whole = sum(share.values())
    return min((_room(device) * whole // part for device, part in share.items()), default=UNKNOWN)


def _room(device: torch.device) -> int:
    return int(free_memory(device) * (ON_CPU if device.type == "cpu" else ON_ACCELERATOR))


def out_of_memory(error: BaseException) -> bool:
    """True for what torch raises where a device, or the CPU's allocator, has no more."""
    said = ("can't allocate memory", "not enough memory")  # on Linux; elsewhere
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in str(error) for words in said)


def upload(values: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Numbers as a tensor on a device, without waiting for what the device still computes."""
    made = torch.tensor(values, dtype=dtype)
    return made.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else made.to(device)


def amount(nbytes: float) -> str:
    """Bytes in words, to three digits."""
    for unit in ("bytes", "kB", "MB"):
        if nbytes < 999.5:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} GB" if nbytes < 999.5 else f"{nbytes:,.0f} GB"
