from __future__ import annotations

import copy
from collections.abc import Mapping

import pytest
import torch
from transformers import GenerationConfig

from sottovoce.core.errors import UsageError
from sottovoce.models import LoadedModel, Sampling, assemble
from tests.support import tiny_model, tiny_tokenizer


def loaded(seed: int = 0, generation: Mapping[str, object] | None = None, **config: object) -> LoadedModel:
    model = tiny_model(seed=seed, **config)  # type: ignore[arg-type]
    if generation is not None:
        model.generation_config = GenerationConfig(**generation)
    return assemble(f"loaded model {seed}", model, tiny_tokenizer())


@pytest.mark.parametrize(
    ("eos", "stops"), [(None, (2,)), (2, (2,)), (0, (0, 2)), ([2, 0], (2, 0)), ([0, 2, 0], (0, 2)), ([], (2,))]
)
def test_every_end_of_configuration_and_tokenizer_stops(eos: object, stops: tuple[int, ...]) -> None:
    found = loaded(generation={"eos_token_id": eos})

    assert (found.stop_ids, found.eos) == (stops, 2)


def test_the_models_own_sampling_is_its_default() -> None:
    own = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05}

    assert loaded(generation=own).sampling == Sampling(0.7, 0.8, 20, 1.05)
    assert loaded(generation={}).sampling == Sampling(temperature=1.0, top_k=50)  # as generate completes it
    assert loaded(generation={"do_sample": False, "temperature": 0.7, "top_k": 0}).sampling == Sampling(0.0)


@pytest.mark.parametrize(
    ("layers", "chosen", "found"),
    [
        (2, (), (0,)),  # never the last: what is added after it is never read
        (1, (), (0,)),
        (4, (), (2,)),
        (10, (), (7,)),
        (4, (3,), (3,)),
        (4, (2, 0, 2), (0, 2)),
    ],
)
def test_latent_layers_are_the_chosen_ones_or_one_near_seven_tenths(
    layers: int, chosen: tuple[int, ...], found: tuple[int, ...]
) -> None:
    assert loaded(num_hidden_layers=layers).latent_layers(chosen) == found


def test_a_layer_out_of_range_is_refused_with_the_models_name() -> None:
    with pytest.raises(UsageError, match="layer 2 is out of range; 'loaded model 0' has layers 0 to 1"):
        loaded().latent_layers((0, 2))


def test_weights_are_the_same_only_where_values_and_shapes_are() -> None:
    changed = loaded()
    with torch.no_grad():
        next(iter(changed.model.parameters()))[0, 0] += 1
    others = [loaded(1), loaded(intermediate_size=48), loaded(num_hidden_layers=1), changed]

    assert loaded().weights_key == loaded().weights_key
    assert len({each.weights_key for each in [loaded(), *others]}) == 5


def test_a_vocabulary_is_the_tokenizers_whatever_the_tables_height_or_width() -> None:
    longer = copy.deepcopy(tiny_tokenizer())
    longer.add_tokens(["sottovoce"])
    other = assemble("longer", tiny_model(vocab_size=320), longer)

    assert loaded().vocabulary_key == loaded(1, hidden_size=48, vocab_size=320).vocabulary_key
    assert other.vocabulary_key != loaded().vocabulary_key
    assert len(other.table) == len(loaded().table) + 1
