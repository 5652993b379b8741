"""The placement of a model's weights: on one device, or spread by accelerate over several and the disk."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from transformers import PreTrainedModel

from sottovoce.core.errors import ModelError

Device = str | Mapping[str, int | str]
"""A torch device, "auto", "map", or a device (or "disk") for each module by its dotted name; "" is the whole model."""
Place = str | tuple[tuple[str, int | str], ...]
"""A device by its canonical name, so that places can be compared."""
MAP = "map"


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


def is_spread(place: Place) -> bool:
    """Return True if accelerate puts each module in its place."""
    return place == MAP or not isinstance(place, str)


def on_cpu(place: Place) -> bool:
    """Return True if a CPU computes the whole model; weights on the disk are fetched for it."""
    if place == MAP:
        return not torch.accelerator.is_available()
    return {place} == {"cpu"} if isinstance(place, str) else {device for _, device in place} <= {"cpu", "disk"}


def device_map(place: Place, *, quantised: bool) -> str | dict[str, int | str] | None:
    """Return the device map for transformers; None if the model is moved after loading."""
    if not isinstance(place, str):
        return dict(place)
    if place == MAP:
        return "auto"
    return {"": place} if quantised else None  # some quantized kinds cannot be moved after loading


def placed(model: PreTrainedModel, place: Place) -> PreTrainedModel:
    """Return the model at its place.

    Raises:
        ModelError: torch has no such device here, or a map names a module that the model does not have.
    """
    if not isinstance(place, str):
        _check_names(model, [name for name, _ in place])
    elif place != MAP:
        try:
            nn.Module.to(model, torch.device(place))
        except (RuntimeError, AssertionError) as error:  # torch without that backend, or no such device
            raise ModelError(f"device {place!r} cannot be used: {str(error).splitlines()[0]}") from error
    return model


def _check_names(model: PreTrainedModel, names: list[str]) -> None:
    """Check the names of a device map: accelerate would leave a misspelt module on the CPU silently."""
    known = {*dict(model.named_modules()), *dict(model.named_parameters())}
    if unknown := [name for name in names if name not in known]:
        raise ModelError(
            f"the device map names {unknown[0]!r}, which is not a module of {type(model).__name__}; "
            f"it has {', '.join(sorted(child for child, _ in model.named_children()))} and what is below them"
        )


def input_device(module: nn.Module) -> torch.device:
    """Return the device of a module's inputs: the CPU for offloaded weights, which accelerate moves itself."""
    device = next(module.parameters()).device
    return torch.device("cpu") if device.type == "meta" else device
