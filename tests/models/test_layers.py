from __future__ import annotations

import pytest
import torch
from torch import nn

from sottovoce.core.errors import ModelError
from sottovoce.models.huggingface.layers import decoder_layers, hooked
from tests.support import FAMILIES, noise, tiny_model


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_layers_of_a_family_are_found(family: str) -> None:
    assert len(decoder_layers(tiny_model(family))) == 2


@pytest.mark.parametrize("path", [None, "model.blocks", "model.embed_tokens"])
def test_layers_that_are_nowhere_say_what_to_set(path: str | None) -> None:
    model = nn.Linear(2, 2) if path is None else tiny_model()

    with pytest.raises(ModelError, match=r"no decoder layers in .* set `layers_path`"):
        decoder_layers(model, path)


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "gpt_neox", "mpt"])
def test_the_layers_of_a_wrapped_model_are_found(family: str) -> None:
    """As PEFT wraps: its paths are base_model.model.<path>."""
    inner, wrapped = tiny_model(family), nn.Module()
    wrapped.base_model = nn.Module()
    wrapped.base_model.model = inner

    assert decoder_layers(wrapped) is decoder_layers(inner)


def test_a_path_is_matched_by_whole_names() -> None:
    model = nn.Module()
    model.supermodel = nn.Module()
    model.supermodel.layers = nn.ModuleList([nn.Linear(2, 2)])

    with pytest.raises(ModelError, match="set `layers_path`"):
        decoder_layers(model)


def test_layers_at_another_place_are_found_by_their_path() -> None:
    model = nn.Module()
    model.tower = nn.Module()
    model.tower.steps = nn.ModuleList([nn.Linear(2, 2)])

    assert decoder_layers(model, "tower.steps") is model.tower.steps


def test_a_hook_changes_tensors_and_tuples_inside_its_block_alone() -> None:
    class Pair(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, str]:
            return x, "kept"

    layers, x = nn.ModuleList([nn.Identity(), Pair()]), noise(1, 2, 3)

    with hooked(layers, {0: lambda hidden: hidden + 1, 1: lambda hidden: hidden + 2}):
        assert torch.equal(layers[0](x), x + 1)
        assert torch.equal(layers[1](x)[0], x + 2) and layers[1](x)[1] == "kept"

    assert torch.equal(layers[0](x), x) and torch.equal(layers[1](x)[0], x)


def test_no_hook_outlives_a_failing_block() -> None:
    layers = nn.ModuleList([nn.Identity(), nn.Identity()])

    with pytest.raises(RuntimeError, match="inside"), hooked(layers, {1: torch.neg}):
        assert hooks(layers) == 1
        raise RuntimeError("inside")

    assert hooks(layers) == 0
