from __future__ import annotations

import doctest

import pytest
import torch
from torch import nn

from sottovoce.core.errors import ModelError
from sottovoce.models import record_activations
from sottovoce.models.huggingface import layers as layers_module
from sottovoce.models.huggingface.layers import decoder_layers, hooked
from tests.models.support import hooks, words
from tests.support import FAMILIES, noise, request, tiny_loaded, tiny_model


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


# States in one line


def test_the_example_runs() -> None:
    found = doctest.testmod(layers_module)
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "bloom", "gemma2"])
def test_recorded_states_are_those_that_transformers_puts_out(family: str) -> None:
    assert family in FAMILIES
    model, ids = tiny_model(family), torch.tensor([words(9).ids, words(9, seed=1).ids])

    with torch.no_grad(), record_activations(model, layers=[0]) as states:
        hidden = model(input_ids=ids, output_hidden_states=True).hidden_states
        model(input_ids=ids[:1, :4])

    assert torch.equal(states[0][0], hidden[1])
    assert [tuple(each.shape[:2]) for each in states[0]] == [(2, 9), (1, 4)]


def test_no_hook_outlives_the_block_even_where_it_breaks() -> None:
    model = tiny_model()
    before = hooks(model)
    with pytest.raises(ZeroDivisionError), record_activations(model, layers=[0, 1]):
        raise ZeroDivisionError

    assert hooks(model) == before


def test_a_request_to_the_engine_is_recorded_too() -> None:
    loaded = tiny_loaded()
    loaded.engine.run(request())  # its first pass measures what the model keeps of a position
    with record_activations(loaded.model, layers=[1]) as states:
        reply = loaded.engine.run(request((words(9),), 4))

    assert [each.shape[1] for each in states[1]] == [9, 1, 1, 1] and len(reply.ids) == 4
