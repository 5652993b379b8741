"""Sampling where the user set none, of means and of drawn tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.models import (
    Base,
    LoadedModel,
    assemble,
    base_temperature,
    default_sampling,
    drawn_temperature,
)
from sottovoce.models.base_temperature import (
    CAUTIOUS,
    FOLDER,
    Measured,
    family_of,
    save_measurement,
    saved_measurement,
)
from sottovoce.models.doctor.cipher_temperature import LADDER, measure, temperature
from tests.support import reciting_loaded, tiny_model, tiny_tokenizer

NOTHING_KNOWN = Base(CAUTIOUS, "a cautious choice", sure=False)
MEASURED = Measured(model="tiny", temperature=0.5, allowed=-1.5, found={"1": -4.0, "0.5": -1.0})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path))
    return tmp_path / FOLDER


def loaded_with(name: str = "tiny", **generation: object) -> LoadedModel:
    """A model of no family, whose generation configuration says so much and names no other temperature."""
    model = tiny_model()
    for field, value in {"temperature": None, **generation}.items():
        setattr(model.generation_config, field, value)
    return assemble(name, model, tiny_tokenizer())


def test_what_the_model_s_files_name_goes_before_all() -> None:
    loaded = loaded_with(temperature=0.9)
    save_measurement(loaded.weights_key, MEASURED)
    assert base_temperature(loaded) == Base(0.9)


@pytest.mark.parametrize("generation", [{}, {"do_sample": False}, {"temperature": 0.0}])
def test_a_model_of_which_nothing_is_known_starts_cautiously(generation: dict[str, Any]) -> None:
    assert base_temperature(loaded_with(**generation)) == NOTHING_KNOWN


QWEN = {str(i): i for i in range(151_643)}


@pytest.mark.parametrize(
    ("model_type", "vocabulary", "family"),
    [
        ("qwen2", QWEN, "Qwen"),
        ("qwen3_moe", QWEN, "Qwen"),
        ("qwen2", {"a": 0}, None),  # a small model of that architecture
        ("llama", {"<|begin_of_text|>": 128_000}, "Llama 3"),
        ("llama", {"<|im_start|>": 1}, None),  # SmolLM2
        ("llama", QWEN, None),
        ("mistral", {"<|begin_of_text|>": 128_000}, None),
    ],
)
def test_a_family_is_known_by_architecture_and_tokenizer(
    model_type: str, vocabulary: dict[str, int], family: str | None
) -> None:
    assert family_of(model_type, vocabulary) == family


def test_a_measurement_is_found_again_by_the_weights() -> None:
    loaded = loaded_with()
    save_measurement("another", MEASURED)
    assert base_temperature(loaded) == NOTHING_KNOWN

    save_measurement(loaded.weights_key, MEASURED)
    assert base_temperature(loaded) == Base(0.5, "as `models doctor` found")


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": 2}', MEASURED.model_dump_json().replace('"format":1', '"format":2')]
)
def test_a_damaged_measurement_or_one_of_another_format_counts_for_nothing(text: str, cache: Path) -> None:
    cache.mkdir()
    (cache / "w.json").write_text(text)
    assert saved_measurement("w") is None


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
    found = measure(reciting_loaded("\n Mia has 3 apples."))
    assert found.temperature == LADDER[0]
    assert list(found.found) == ["1"]


def test_the_ladder_ends_at_the_first_rung_that_can_be_read_and_repeats() -> None:
    loaded = loaded_with()
    found, again = measure(loaded), measure(loaded)
    assert again.temperature == found.temperature
    # The second time prefixes are cached, so rounding may differ, and a figure is rounded to two decimals.
    assert again.found == pytest.approx(found.found, abs=0.011)
    *warmer, last = found.found.values()
    assert all(likelihood < found.allowed for likelihood in warmer)
    assert last >= found.allowed or len(found.found) == len(LADDER)
    assert found.temperature == LADDER[len(warmer)]


def test_what_was_measured_is_kept_for_runs() -> None:
    loaded = loaded_with()
    _, detail = temperature(loaded)
    base = base_temperature(loaded)
    assert base.sure
    assert detail.startswith(f"{base.value:g}, ")
    assert temperature(loaded)[1] == f"{base.value:g}, as `models doctor` found"


def test_a_cache_that_cannot_be_written_is_told(cache: Path) -> None:
    cache.write_text("no folder")
    _, detail = temperature(loaded_with())
    assert detail.endswith(f"not saved: File exists; runs start from {CAUTIOUS}")
