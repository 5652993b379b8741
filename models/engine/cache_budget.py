"""Memory for keys and values: budgets, detection of out-of-memory errors, and uploads of numbers to a device."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import psutil
import torch

from sottovoce.models.huggingface.passes import Kind

ON_CPU, ON_ACCELERATOR = 0.25, 0.7  # of the free memory when an engine starts; the rest is for passes and payloads
LEAST = 1 / 8  # of the free memory: an engine's minimum, whatever was promised to others
UNKNOWN = 4 << 30  # bytes, for a model without keys and values
CGROUP = Path("/sys/fs/cgroup")  # of a container on Linux
LIMITS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


class CacheOwner(Protocol):
    """An owner of keys and values that may allocate more."""

    def may_take(self, device: torch.device) -> int:
        """Return the bytes of a device that it may still allocate."""


_owners: weakref.WeakSet[CacheOwner] = weakref.WeakSet()
_lock = threading.Lock()


def register(owner: CacheOwner) -> None:
    """Count what this owner may still allocate when later engines set their budgets, as long as it lives."""
    with _lock:
        _owners.add(owner)


def free_memory(device: torch.device) -> int:
    """Return the free bytes of a device; for the CPU, within the limit of its container, if there is one."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(int(psutil.virtual_memory().available), *left_in_container())


def left_in_container(folder: Path = CGROUP) -> list[int]:
    """Return the bytes left below the limits that a control-group folder sets; sys.maxsize if it sets none."""
    free = []
    for limit, used in LIMITS:
        with suppress(OSError, ValueError):  # no such file, or no limit: "max"
            free.append(max(int((folder / limit).read_text()) - int((folder / used).read_text()), 0))
    return free or [sys.maxsize]


def default_budget(kinds: Sequence[Kind]) -> int:
    """Return the default budget for keys and values in bytes, limited by the fullest of a model's devices.

    Bytes that other engines on the same device may still allocate do not count as free.
    """
    shares = shares_of(kinds)
    return min((int(_available(device) / share) for device, share in shares.items()), default=UNKNOWN)


def shares_of(kinds: Sequence[Kind]) -> dict[torch.device, float]:
    """Return the share of a position's keys and values on each device; the shares add up to 1."""
    total, shares = sum(kind.nbytes for kind in kinds), dict[torch.device, float]()
    for kind in kinds:
        shares[kind.device] = shares.get(kind.device, 0.0) + kind.nbytes / total
    return shares


def _available(device: torch.device) -> float:
    with _lock:
        promised = sum(owner.may_take(device) for owner in _owners)
    free = free_memory(device)
    return max(free - promised, LEAST * free) * (ON_CPU if device.type == "cpu" else ON_ACCELERATOR)


def out_of_memory(error: BaseException) -> bool:
    """Return True for the errors that torch raises if a device, or the CPU's allocator, is out of memory."""
    said = ("can't allocate memory", "not enough memory")  # on Linux; elsewhere
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in str(error) for words in said)


def upload(values: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return numbers as a tensor on a device, without waiting for pending work of the device."""
    tensor = torch.tensor(values, dtype=dtype)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
