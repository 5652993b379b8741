"""The user's own named models and defaults, from a TOML file.

    [models.small]                 # --model small
    model = "smollm2"
    weights = "int4"

    [defaults]                     # for every scheme that has such a setting
    protocol = "cipher"

    [defaults.debate]              # for one scheme
    rounds = 3

The command line takes precedence over a file of `--settings`,
that file over the settings of a named model, and those over defaults.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.settings import Settings
from sottovoce.settings.base import EACH
from sottovoce.settings.plain import named

UNSET = {"dtype": "auto", "weights": "auto", "device": "auto", "system": ""}
"""Values for a model that lacks a setting which another model of the same run has."""
Given = dict[str, Any]  # Any: values as TOML has them, or as typed


@dataclass(frozen=True)
class Config:
    """The content of the config file; all fields are empty if there is none."""

    path: Path | None = None
    models: Mapping[str, Given] = field(default_factory=dict)
    """Settings of each named model, by its name."""
    everywhere: Mapping[str, Any] = field(default_factory=dict)
    of_scheme: Mapping[str, Given] = field(default_factory=dict)
    """Defaults for one scheme each, by the scheme's command."""

    @property
    def name(self) -> str:
        """The file's name as errors show it."""
        return f"config file {str(self.path)!r}"

    def defaults(self, settings: type[Settings]) -> Given:
        """Return the file's defaults for a scheme's settings: its own, then those for every scheme."""
        own = next((given for name, given in self.of_scheme.items() if scheme(name).settings is settings), {})
        given = {**self.everywhere, **own}
        return named({key: given[key] for key in given if key in settings.model_fields}, settings.model_fields)

    def filled(self, settings: type[Settings], chosen: Given) -> Given:
        """Return the chosen settings, with defaults for the rest, and with named models replaced by their settings.

        Raises:
            UsageError: one of several models has a temperature or a memory, and another does not.
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
        """Return in one line the defaults and named models that apply to the chosen settings; empty if none do."""
        defaults = {key: value for key, value in self.defaults(settings).items() if key not in chosen}
        names = dict.fromkeys(_listed({**defaults, **chosen}.get("model", [])))
        meant = [f"{name} is {words(self.models[name])}" for name in names if name in self.models]
        told = [*([f"defaults {words(defaults)}"] if defaults else []), *meant]
        return f"{self.name}: {'; '.join(told)}" if told else ""

    def _each(self, key: str, names: list[str], meant: list[Given], given: Given) -> list[Any]:
        """Return one value for each model; a model without its own value gets the default or the unset value."""
        default = _listed(given.get(key) or [])
        usual = {**UNSET, key: default[0]} if len(default) == 1 else UNSET
        missing = [name for name, each in zip(names, meant, strict=True) if key not in each and key not in usual]
        if missing:
            raise UsageError(f"{key} is set for other models, but not for {missing[0]!r}; set it there ({self.name})")
        return [each.get(key, usual.get(key)) for each in meant]


def words(given: Given) -> str:
    """Return settings as a phrase: "rounds 3, protocol cipher"."""
    return ", ".join(f"{key} {' '.join(map(str, _listed(value)))}" for key, value in given.items())


def _listed(value: Any) -> list[Any]:  # Any: a value as given
    return value if isinstance(value, list) else [value]


def _of_models(key: str, meant: list[Given], chosen: Given) -> bool:
    """Return whether a named model sets this key, and the user's choice does not override it."""
    return any(key in each for each in meant) and (key == "model" or key not in chosen)
