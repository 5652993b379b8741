"""Devices: the placement of a model's weights on one or several, free memory, and uploads of numbers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn
from transformers import PreTrainedModel

from sottovoce.core.errors import ModelError

Device = str | Mapping[str, int | str]
"""A torch device, "auto", "map", or a device (or "disk") for each module by its dotted name; "" is the whole model."""
Place = str | tuple[tuple[str, int | str], ...]
"""A device by its canonical name, so that places can be compared."""
MAP = "map"
CGROUP = Path("/sys/fs/cgroup")  # of a container on Linux
CGROUP_FILES = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


_lock, _without_cudnn = threading.Lock(), [0, True]
"""The number of blocks that are without cuDNN's attention, and whether it was on before."""


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Attend without cuDNN inside the block, in all threads: it builds a plan for each new shape, up to a second each.

    A prompt hardly ever has the shape of another one; torch (2.11) asks cuDNN first where there is a mask.
    """
    with _lock:
        if not _without_cudnn[0]:
            _without_cudnn[1] = torch.backends.cuda.cudnn_sdp_enabled()
            torch.backends.cuda.enable_cudnn_sdp(False)
        _without_cudnn[0] += 1
    try:
        yield
    finally:
        with _lock:
            _without_cudnn[0] -= 1
            if not _without_cudnn[0]:
                torch.backends.cuda.enable_cudnn_sdp(bool(_without_cudnn[1]))


def place_of(device: Device) -> Place:
    """Return the place of a device: "auto" is the accelerator or else the CPU, and "cuda" the current GPU."""
    if not isinstance(device, str):
        return tuple(sorted(device.items()))
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device == "auto":
        device = found.type if found else "cpu"
    if found and device == found.type:
        return f"{device}:{torch.accelerator.current_device_index()}"
    return device


def placed(model: PreTrainedModel, place: Place) -> PreTrainedModel:
    """Return the model at its place.

    Raises:
        ModelError: torch has no such device here, or a map names a module that the model does not have.
    """
    if not isinstance(place, str):
        known = {*dict(model.named_modules()), *dict(model.named_parameters())}
        if unknown := [name for name, _ in place if name not in known]:  # accelerate would leave it on the CPU silently
            raise ModelError(
                f"the device map names {unknown[0]!r}, which is not a module of {type(model).__name__}; "
                f"it has {', '.join(sorted(child for child, _ in model.named_children()))} and their submodules"
            )
    elif place != MAP:
        try:
            nn.Module.to(model, torch.device(place))
        except (RuntimeError, AssertionError) as error:  # torch without that backend, or no such device
            raise ModelError(f"device {place!r} cannot be used: {str(error).splitlines()[0]}") from error
    return model


def free_memory(device: torch.device) -> int:
    """Return the free bytes of a device; for the CPU, within the limit of its container, if there is one."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return min(int(psutil.virtual_memory().available), *left_in_container())


def left_in_container(folder: Path = CGROUP) -> list[int]:
    """Return the bytes left below the limits that a control-group folder sets; sys.maxsize if it sets none."""
    free = []
    for limit, used in CGROUP_FILES:
        with suppress(OSError, ValueError):  # no such file, or no limit: "max"
            free.append(max(int((folder / limit).read_text()) - int((folder / used).read_text()), 0))
    return free or [sys.maxsize]


def out_of_memory(error: BaseException) -> bool:
    """Return True for the errors that torch raises if a device, or the CPU's allocator, is out of memory."""
    said = ("can't allocate memory", "not enough memory")  # on Linux; elsewhere
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in str(error) for words in said)


def upload(values: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return numbers as a tensor on a device, without waiting for pending work of the device."""
    tensor = torch.tensor(values, dtype=dtype)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def download(tensor: torch.Tensor) -> Callable[[], Any]:
    """Begin to copy a tensor from its device; the call that is returned waits for it and returns its numbers.

    On a GPU it waits for this tensor alone, not for work that was queued later.
    """
    if tensor.device.type != "cuda":
        return tensor.tolist
    there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    there.copy_(tensor, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(tensor.device))

    def wait() -> Any:
        copied.synchronize()
        return there.tolist()

    return wait
