"""The states of a layer in one line."""

from __future__ import annotations

import doctest

import pytest
import torch

from sottovoce.core.errors import ModelError
from sottovoce.models import record_activations
from sottovoce.models.huggingface import layers
from tests.models.support import hooks, words
from tests.support import FAMILIES, request, tiny_loaded, tiny_model


def test_the_example_runs() -> None:
    found = doctest.testmod(layers)

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


def test_a_layer_that_is_not_there_leaves_no_hook() -> None:
    model = tiny_model()
    before = hooks(model)
    with pytest.raises(IndexError), record_activations(model, layers=[0, 9]):
        pass
    with pytest.raises(ModelError, match="set `layers_path`"), record_activations(model, [0], layers_path="blocks"):
        pass

    assert hooks(model) == before
