"""The state of a run in one safetensors file: parameters, optimisers, and where the run stands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn


def save(
    path: Path, model: nn.Module, optimisers: Sequence[torch.optim.Optimizer], progress: dict[str, int | float]
) -> None:
    """Replace the checkpoint as a whole, so that a killed run never finds half of one."""
    tensors = {f"model/{name}": tensor.detach() for name, tensor in model.named_parameters()}
    for i, optimiser in enumerate(optimisers):
        for index, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{i}/{index}/{name}": tensor for name, tensor in state.items()}
    new = path.with_suffix(".new")
    save_file(tensors, new, {"progress": json.dumps(progress)})
    new.replace(path)


def load(path: Path, model: nn.Module, optimisers: Sequence[torch.optim.Optimizer]) -> dict[str, int | float]:
    """Put a checkpoint's state in place and return where the run stands."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        progress: dict[str, int | float] = json.loads(file.metadata()["progress"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model/{name}"])
    for i, optimiser in enumerate(optimisers):
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": _states(tensors, f"optimiser/{i}/"), "param_groups": groups})
    return progress


def _states(tensors: dict[str, Tensor], prefix: str) -> dict[int, dict[str, Tensor]]:
    states: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith(prefix):
            index, name = key.removeprefix(prefix).split("/")
            states.setdefault(int(index), {})[name] = tensor
    return states
