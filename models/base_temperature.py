"""Default sampling settings of a model, for drawn tokens and for mean embeddings.

A drawn token is a word at any temperature, although a small chat model rambles at 1. A mean embedding is near a
word only if the distribution is narrow. SmolLM2, whose files name no temperature, writes fluent text from means at
0.15 to 0.4 and noise at 1.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sottovoce.core.files import bytes_of, models_folder
from sottovoce.models.engine.request import Sampling
from sottovoce.models.loaded import LoadedModel
from sottovoce.models.sources.catalogue import defaults_of

FORMAT: Final = 1
"""Version of the stored measurement; a measurement in another format is repeated."""
FOLDER = "temperatures"
CAUTIOUS = 0.3
"""Temperature of means for an unknown model: readable on the smallest chat model that we measured."""
USUAL = 0.7
"""Temperature of drawn tokens for an unknown model: chat models are published with 0.6 to 0.7."""


class Base(NamedTuple):
    """A temperature and its source."""

    value: float
    why: str = ""
    """The source, for users; empty if the value comes from the model's own files."""
    sure: bool = True
    """False if nothing is known about this model."""


class Measured(BaseModel):
    """The temperature that `models doctor` measured for some weights."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = FORMAT
    model: str
    """The name under which the model was measured."""
    temperature: float = Field(gt=0, allow_inf_nan=False)
    allowed: float
    """The lowest mean log-probability of a token (nats) at which messages count as readable."""
    found: dict[str, float]
    """Mean log-probability of the messages by temperature, from the highest temperature down to the chosen one."""


def default_sampling(loaded: LoadedModel) -> Sampling:
    """Return the sampling settings of drawn tokens: the model's files first, then the catalogue."""
    own = replace(loaded.sampling, temperature=drawn_temperature(loaded).value)
    return replace(own, top_p=top_p.value) if (top_p := known_top_p(loaded)) else own


def drawn_temperature(loaded: LoadedModel) -> Base:
    """Return the temperature of drawn tokens: from the files, the catalogue, the model's family, or the usual one."""
    if loaded.model.generation_config.temperature is not None or loaded.sampling.temperature == 0:
        return Base(loaded.sampling.temperature)
    if known := defaults_of(loaded.name):
        return Base(known.temperature, known.source)
    return _of_family(loaded) or Base(USUAL, "the usual temperature of chat models", sure=False)


def known_top_p(loaded: LoadedModel) -> Base | None:
    """Return the catalogue's top-p if the model's files name none."""
    known = defaults_of(loaded.name)
    silent = getattr(loaded.model.generation_config, "top_p", None) is None
    return Base(known.top_p, known.source) if known and silent else None


def base_temperature(loaded: LoadedModel) -> Base:
    """Return the base temperature of means: from the files, the family, a measurement, or a cautious default."""
    if named := loaded.model.generation_config.temperature:  # even if the files do not sample
        return Base(named)
    if family := _of_family(loaded):
        return family
    if known := KNOWN.get(loaded.weights_key):
        return Base(known, "measured on these weights")
    if measured := saved_measurement(loaded.weights_key):
        return Base(measured.temperature, "as `models doctor` found")
    return Base(CAUTIOUS, "a cautious choice", sure=False)


PUBLISHED: Mapping[str, float] = {"Qwen": 0.7, "Llama 3": 0.6}
"""Temperatures by family, from generation_config.json of the Qwen2.5 and Llama 3.1 instruct models."""

KNOWN: Mapping[str, float] = {"2c307e917fd27b89": 0.4}
"""Temperatures by weights: measured by `models doctor` for SmolLM2-135M-Instruct in float32, from the catalogue."""


def _of_family(loaded: LoadedModel) -> Base | None:
    family = family_of(loaded.model.config.get_text_config().model_type, loaded.tokenizer.get_vocab())
    return Base(PUBLISHED[family], f"published for the {family} family") if family else None


def family_of(model_type: str, vocabulary: Mapping[str, int]) -> str | None:
    """Return a family of PUBLISHED, judged by vocabulary too: unrelated models share architectures, not tokenizers."""
    if model_type.startswith("qwen") and len(vocabulary) >= 151_643:  # the BPE of Qwen's first models; later ones grew
        return "Qwen"
    if model_type == "llama" and vocabulary.get("<|begin_of_text|>") == 128_000:
        return "Llama 3"
    return None


def saved_measurement(weights: str) -> Measured | None:
    """Return this machine's measurement of the weights; None if there is none, or only one in another format."""
    try:
        return Measured.model_validate_json(bytes_of(_file(weights)))
    except (OSError, ValidationError):
        return None


def save_measurement(weights: str, measured: Measured) -> None:
    """Save a measurement next to the cached models."""
    file = _file(weights)
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        partial.write_text(measured.model_dump_json(indent=2) + "\n", encoding="utf-8")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def _file(weights: str) -> Path:
    return models_folder() / FOLDER / f"{weights}.json"
