"""Where a model's weights lie: on one device, or spread by accelerate over several and the disk."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from transformers import PreTrainedModel

from sottovoce.errors import ModelError

Device = str | Mapping[str, int | str]
"""A torch device, "auto", "map", or a device (or "disk") for each module by its dotted name; "" is the whole model."""
Place = str | tuple[tuple[str, int | str], ...]
"""A device under its one name, so that it can be compared."""
MAP = "map"


def place_of(device: Device) -> Place:
    """The place that is meant: "auto" is the accelerator or else the cpu, and "cuda" the current one of them."""
    if not isinstance(device, str):
        return tuple(sorted(device.items()))
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device == "auto":
        device = found.type if found else "cpu"
    if found and device == found.type:
        return f"{device}:{torch.accelerator.current_device_index()}"
    return device


def is_spread(place: Place) -> bool:
    """Whether accelerate puts each module in its place."""
    return place == MAP or not isinstance(place, str)


def on_cpu(place: Place) -> bool:
    """Whether a CPU computes all of it; weights on the disk are fetched for that."""
    if place == MAP:
        return not torch.accelerator.is_available()
    return {place} == {"cpu"} if isinstance(place, str) else {device for _, device in place} <= {"cpu", "disk"}


def device_map(place: Place, *, quantised: bool) -> str | dict[str, int | str] | None:
    """What transformers is told of it; None to be moved afterwards."""
    if not isinstance(place, str):
        return dict(place)
    if place == MAP:
        return "auto"
    return {"": place} if quantised else None  # some kinds are not to be moved once they lie


def placed(model: PreTrainedModel, place: Place) -> PreTrainedModel:
    """The model where it was asked to be.

    Raises:
        ModelError: torch has no such device here, or a map names what is no module of the model.
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
    """A misspelt name would leave its module on the cpu, and nobody would know."""
    known = {*dict(model.named_modules()), *dict(model.named_parameters())}
    if unknown := [name for name in names if name not in known]:
        raise ModelError(
            f"the device map names {unknown[0]!r}, which is no module of {type(model).__name__}; "
            f"it has {', '.join(sorted(child for child, _ in model.named_children()))} and what is below them"
        )


def entry(module: nn.Module) -> torch.device:
    """Where a module's inputs enter; what accelerate has put aside takes them on the cpu, and moves them itself."""
    device = next(module.parameters()).device
    return torch.device("cpu") if device.type == "meta" else device
