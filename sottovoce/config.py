"""Named models and defaults of the user's own, from a TOML file.

    [models.small]                 # --model small
    model = "smollm2"
    weights = "int4"

    [defaults]                     # of every scheme that has such a setting
    protocol = "cipher"

    [defaults.debate]              # of one scheme
    rounds = 3

The command line wins over a file of `--settings`,
that over what a model's name stands for, and that over defaults.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.settings.base import EACH
from sottovoce.nodes.settings.plain import named

UNSET = {"dtype": "auto", "weights": "auto", "device": "auto", "system": ""}
"""For a model that has no such value, beside one that has."""
Given = dict[str, Any]  # Any: TOML as it comes, or as it was typed


@dataclass(frozen=True)
class Config:
    """What the file says; all empty where there is none."""

    path: Path | None = None
    models: Mapping[str, Given] = field(default_factory=dict)
    """Settings of one model, by the name that stands for them."""
    everywhere: Mapping[str, Any] = field(default_factory=dict)
    of_scheme: Mapping[str, Given] = field(default_factory=dict)
    """By the scheme's command."""

    @property
    def name(self) -> str:
        """As errors call it."""
        return f"config file {str(self.path)!r}"

    def defaults(self, settings: type[Settings]) -> Given:
        """What the file has for a scheme's settings: its own, over those of every scheme."""
        own = next((given for name, given in self.of_scheme.items() if scheme(name).settings is settings), {})
        given = {**self.everywhere, **own}
        return named({key: given[key] for key in given if key in settings.model_fields}, settings.model_fields)

    def filled(self, settings: type[Settings], chosen: Given) -> Given:
        """What was chosen, with defaults for what was not, and the models that names stand for.

        Raises:
            UsageError: one of several models has a temperature or a memory, and another has none.
        """
        given = {**self.defaults(settings), **chosen}
        names = _listed(given.get("model", []))
        if not any(name in self.models for name in names):
            return given
        meant = [self.models.get(name, {"model": name}) for name in names]
        return {
            **given,
            **{key: self._each(key, names, meant, given) for key in EACH if _of_models(key, meant, chosen)},
        }

    def told(self, settings: type[Settings], chosen: Given) -> str:
        """What of it is in force beside what was chosen, in one line; empty where nothing is."""
        defaults = {key: value for key, value in self.defaults(settings).items() if key not in chosen}
        names = dict.fromkeys(_listed({**defaults, **chosen}.get("model", [])))
        meant = [f"{name} is {words(self.models[name])}" for name in names if name in self.models]
        told = [*([f"defaults {words(defaults)}"] if defaults else []), *meant]
        return f"{self.name}: {'; '.join(told)}" if told else ""

    def _each(self, key: str, names: list[str], meant: list[Given], given: Given) -> list[Any]:
        """One value for each model; a default, or nothing, for those that have none of their own."""
        default = _listed(given.get(key) or [])
        usual = {**UNSET, key: default[0]} if len(default) == 1 else UNSET
        missing = [name for name, each in zip(names, meant, strict=True) if key not in each and key not in usual]
        if missing:
            raise UsageError(f"{key} is set for other models, but not for {missing[0]!r}; set it there ({self.name})")
        return [each.get(key, usual.get(key)) for each in meant]


def words(given: Given) -> str:
    """Settings in a phrase: "rounds 3, protocol cipher"."""
    return ", ".join(f"{key} {' '.join(map(str, _listed(value)))}" for key, value in given.items())


def _listed(value: Any) -> list[Any]:  # Any: as it was given
    return value if isinstance(value, list) else [value]


def _of_models(key: str, meant: list[Given], chosen: Given) -> bool:
    """Whether models that names stand for say it, and nobody chose otherwise."""
    return any(key in each for each in meant) and (key == "model" or key not in chosen)
