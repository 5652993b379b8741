from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from sottovoce.core.errors import UsageError
from sottovoce.models import (
    Base,
    LoadedModel,
    Sampling,
    assemble,
    base_temperature,
    default_sampling,
    drawn_temperature,
)
from sottovoce.models.doctor import LADDER, measure
from sottovoce.models.huggingface.embedding_table import Table
from sottovoce.models.loaded import CAUTIOUS, family_of
from tests.support import VOCABULARY, longer_tokenizer, reciting_loaded, tiny_model, tiny_tokenizer


def loaded(seed: int = 0, generation: Mapping[str, object] | None = None, **config: object) -> LoadedModel:
    model = tiny_model(seed=seed, **config)  # type: ignore[arg-type]
    if generation is not None:
        model.generation_config = GenerationConfig(**generation)
    return assemble(f"loaded model {seed}", model, tiny_tokenizer())


@pytest.mark.parametrize(
    ("eos", "stops"),
    [
        (None, (2,)),
        (2, (2,)),
        ([2, VOCABULARY], (2,)),
        (-1, (2,)),
        (0, (0, 2)),
        ([2, 0], (2, 0)),
        ([0, 2, 0], (0, 2)),
        ([], (2,)),
    ],
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


@pytest.mark.parametrize(
    "name", ["model.embed_tokens.weight", "model.layers.0.mlp.down_proj.weight", "model.norm.weight"]
)
def test_models_that_differ_in_one_bit_are_two(name: str) -> None:
    """Showed as equal keys where 4,096 values of a table and 64 of each weight were read."""
    same, model = loaded(), tiny_model()
    values = dict(model.named_parameters())[name].detach().view(torch.int32).reshape(-1)
    values[len(values) // 2 + 3] ^= 1
    other = assemble("other", model, tiny_tokenizer())

    assert (same.weights_key, same.table.key) == (loaded().weights_key, loaded().table.key)
    assert other.weights_key != same.weights_key and (other.table.key != same.table.key) == ("embed" in name)


def test_a_table_has_one_key_in_float32_and_in_the_bfloat16_that_it_came_in() -> None:
    rows = torch.randn(7000, 700, generator=torch.Generator().manual_seed(0)).bfloat16()  # several pieces
    changed = rows.clone()
    changed[6999, 699] *= 2

    assert Table(rows).key == Table(rows.float()).key != Table(changed).key


def test_a_vocabulary_is_the_tokenizers_whatever_the_tables_height_or_width() -> None:
    other = assemble("longer", tiny_model(vocab_size=320), longer_tokenizer())

    assert loaded().vocabulary_key == loaded(1, hidden_size=48, vocab_size=320).vocabulary_key
    assert other.vocabulary_key != loaded().vocabulary_key
    assert len(other.table) == len(loaded().table) + 1


# Sampling where the user set none

NOTHING_KNOWN = Base(CAUTIOUS, "a cautious choice", sure=False)


def loaded_with(name: str = "tiny", **generation: object) -> LoadedModel:
    """A model of no family, whose generation configuration says so much and names no other temperature."""
    model = tiny_model()
    for field, value in {"temperature": None, **generation}.items():
        setattr(model.generation_config, field, value)
    return assemble(name, model, tiny_tokenizer())


def test_what_the_model_s_files_name_goes_before_all() -> None:
    loaded = loaded_with(temperature=0.9)
    assert base_temperature(loaded) == Base(0.9)


@pytest.mark.parametrize("generation", [{}, {"do_sample": False}, {"temperature": 0.0}])
def test_a_model_of_which_nothing_is_known_starts_cautiously(generation: dict[str, Any]) -> None:
    assert base_temperature(loaded_with(**generation)) == NOTHING_KNOWN


@pytest.mark.parametrize(
    ("model_type", "size", "begin", "family"),
    [
        ("qwen2", 151_643, None, "Qwen"),
        ("qwen2", 151_642, None, None),
        ("llama", 128_256, 128_000, "Llama 3"),
        ("llama", 49_152, 0, None),
        ("llama", 151_643, None, None),
    ],
)
def test_architecture_and_tokenizer_tell_a_family(
    model_type: str, size: int, begin: object, family: str | None
) -> None:
    assert family_of(model_type, size, begin) == family


def test_no_message_lists_the_vocabulary_which_takes_a_fifth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = loaded_with()
    monkeypatch.setattr(type(loaded.tokenizer), "get_vocab", lambda _: pytest.fail("the vocabulary was listed"))
    assert (base_temperature(loaded).value, default_sampling(loaded).temperature) == (CAUTIOUS, 0.7)


# Drawn tokens


def test_tokens_are_drawn_as_the_files_say_before_all() -> None:
    loaded = loaded_with(temperature=0.9, top_p=0.5)
    assert default_sampling(loaded) == loaded.sampling
    assert drawn_temperature(loaded_with(do_sample=False)) == Base(0.0)


def test_the_catalogue_fills_in_only_what_the_files_leave_open() -> None:
    silent, partly = loaded_with(name="smollm2"), loaded_with(name="smollm2", top_p=0.5)
    assert drawn_temperature(silent) == Base(0.2, "as its makers recommend")
    assert (default_sampling(silent).top_p, default_sampling(partly).top_p) == (0.9, 0.5)
    assert (default_sampling(silent).top_k, silent.sampling.temperature) == (50, 1.0)


# Measuring


def test_a_model_that_is_sure_of_every_word_can_be_read_at_the_warmest() -> None:
    found, _ = measure(reciting_loaded("\n Mia has 3 apples."))
    assert list(found) == [LADDER[0]]


def test_the_ladder_ends_at_the_first_rung_that_can_be_read() -> None:
    loaded = loaded_with()
    found, allowed = measure(loaded)
    *warmer, last = found.values()
    assert all(likelihood < allowed for likelihood in warmer)
    assert last >= allowed or len(found) == len(LADDER)
    assert list(found) == [*LADDER[: len(found)]]
