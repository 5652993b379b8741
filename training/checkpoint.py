"""A checkpoint in one safetensors file: parameters, optimisers, and where the run stands."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer


def save(path: Path, model: nn.Module, optimisers: Sequence[Optimizer], progress: dict[str, int | float]) -> None:
    """Replace the checkpoint as a whole, so that a killed run never finds half of one."""
    tensors = {f"model/{name}": tensor.detach() for name, tensor in model.named_parameters()}
    for i, optimiser in enumerate(optimisers):
        for index, state in optimiser.state_dict()["state"].items():
            tensors |= {f"{i}/{index}/{name}": tensor for name, tensor in state.items()}
    new = path.with_suffix(".new")
    save_file(tensors, new, {"progress": json.dumps(progress)})
    new.replace(path)


def load(path: Path, model: nn.Module, optimisers: Sequence[Optimizer]) -> dict[str, Any]:  # Any: JSON as it comes
    """Put a checkpoint's state in place and return where the run stands."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        progress: dict[str, Any] = json.loads(file.metadata()["progress"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors.pop(f"model/{name}"))
    states = [defaultdict[int, dict[str, Tensor]](dict) for _ in optimisers]
    for key, tensor in tensors.items():
        i, index, name = key.split("/")
        states[int(i)][int(index)][name] = tensor
    for optimiser, state in zip(optimisers, states, strict=True):
        optimiser.load_state_dict({**optimiser.state_dict(), "state": dict(state)})
    return progress
