"""The user's own named models and defaults, from a TOML file, and the command `config` that shows them.

    [models.small]                 # --model small
    model = "smollm2"
    weights = "int4"

    [defaults]                     # for every scheme that has such a setting
    protocol = "cipher"

    [defaults.debate]              # for one scheme
    rounds = 3

The command line takes precedence over a file of `--settings`, that file over the settings of a named model, and those
over defaults.

The first of these files is read, and no other: `$SOTTOVOCE_CONFIG`, `sottovoce.toml` in the working folder, and
`sottovoce/sottovoce.toml` in the user's configuration folder. The one in the working folder may have come with that
folder, so it cannot start programs or import Python names. Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.files import config_folder, text_of
from sottovoce.core.text import one_line
from sottovoce.graphs import SCHEMES, scheme, schemes, shipped
from sottovoce.settings import Settings
from sottovoce.settings.base import EACH
from sottovoce.settings.plain import UnknownName, named

NAME = "sottovoce.toml"
VARIABLE = "SOTTOVOCE_CONFIG"
KEYS = ("models", "defaults")
UNSET = {"dtype": "auto", "weights": "auto", "device": "auto", "system": ""}
"""Values for a model that lacks a setting which another model of the same run has."""
OF_PROGRAMS = ("sandbox", "unsafe")
SOURCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+:[A-Za-z_]")
"""The Python name of a retriever; without a dot it names one that is registered."""
RERANKER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]")
"""The Python name of a reranker; its module needs no dot."""
IMPORTED = {"library": SOURCE, "wiki": SOURCE, "google": SOURCE, "rerank": RERANKER}
"""Settings that may name something to import."""
Values = dict[str, Any]  # Any: settings by name, as TOML has them, or as typed


@dataclass(frozen=True)
class Config:
    """The content of the config file; all fields are empty if there is none."""

    path: Path | None = None
    models: Mapping[str, Values] = field(default_factory=dict)
    """Settings of each named model, by its name."""
    everywhere: Mapping[str, Any] = field(default_factory=dict)
    of_scheme: Mapping[str, Values] = field(default_factory=dict)
    """Defaults for one scheme each, by the scheme's command."""

    @property
    def name(self) -> str:
        """The file's name as errors show it."""
        return f"config file {str(self.path)!r}"

    def defaults(self, settings: type[Settings]) -> Values:
        """Return the file's defaults for a scheme's settings: its own, then those for every scheme."""
        own = next((values for name, values in self.of_scheme.items() if scheme(name).settings is settings), {})
        values = {**self.everywhere, **own}
        return named({key: values[key] for key in values if key in settings.model_fields}, settings.model_fields)

    def filled(self, settings: type[Settings], chosen: Values) -> Values:
        """Return the chosen settings, with defaults for the rest, and with named models replaced by their settings.

        Raises:
            UsageError: one of several models has a temperature or a memory, and another does not.
        """
        values = {**self.defaults(settings), **chosen}
        names = _listed(values.get("model", []))
        if not any(name in self.models for name in names):
            return values
        models = [self.models.get(name, {"model": name}) for name in names]
        for key in EACH:  # a named model's setting counts unless the user chose another value
            if any(key in model for model in models) and (key == "model" or key not in chosen):
                values[key] = self._of_each(key, dict(zip(names, models, strict=True)), names, values.get(key))
        return values

    def _of_each(self, key: str, models: Mapping[str, Values], names: list[str], default: Any) -> list[Any]:
        """Return one value for each model; a model without its own value gets the default or the unset value."""
        usual = dict(UNSET)
        if len(_listed(default or [])) == 1:
            usual[key] = _listed(default)[0]
        for name in names:
            if key not in models[name] and key not in usual:
                raise UsageError(f"{key} is set for other models, but not for {name!r}; set it there ({self.name})")
        return [models[name].get(key, usual.get(key)) for name in names]

    def applied(self, settings: type[Settings], chosen: Values) -> str:
        """Return in one line the defaults and named models that apply to the chosen settings; empty if none do."""
        defaults = {key: value for key, value in self.defaults(settings).items() if key not in chosen}
        names = dict.fromkeys(_listed({**defaults, **chosen}.get("model", [])))
        parts = [f"defaults {words(defaults)}"] if defaults else []
        parts += [f"{name} is {words(self.models[name])}" for name in names if name in self.models]
        return f"{self.name}: {'; '.join(parts)}" if parts else ""


def words(values: Values) -> str:
    """Return settings as a phrase: "rounds 3, protocol cipher"."""
    return ", ".join(f"{key} {' '.join(map(str, _listed(value)))}" for key, value in values.items())


def _listed(value: Any) -> list[Any]:  # Any: a value as TOML has it
    return value if isinstance(value, list) else [value]


def read_config() -> Config:
    """Return the configuration in force; empty if there is no file.

    Raises:
        UsageError: the file cannot be read, or has an unknown key, scheme or setting.
    """
    if (path := config_path()) is None:
        return Config()
    try:
        return _checked(path, _read(path))
    except UnknownName as error:
        raise UsageError(f"{error} (config file {str(path)!r})") from error


def config_path() -> Path | None:
    """Return the config file in force: the one that the variable names, or else the first that exists."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return next((path for path in candidates() if path.is_file()), None)


def candidates() -> list[Path]:
    """Return the paths that are searched if the variable is not set."""
    return [Path(NAME), config_folder() / NAME]


def _read(path: Path) -> Values:
    import tomllib

    try:
        return tomllib.loads(text_of(path))
    except OSError as error:
        raise UsageError(f"config file {str(path)!r} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"config file {str(path)!r} is nested too deeply; expected tables of plain values") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"config file {str(path)!r} is not TOML: {error}") from error


def _checked(path: Path, content: Values) -> Config:
    _check_names("key", content, KEYS)
    models = {
        name: _model(name, _table(values, f"models.{name}"))
        for name, values in _table(content.get("models", {}), "models").items()
    }
    everywhere, of_scheme = Values(), dict[str, Values]()
    commands = [name.replace("_", "-") for name in SCHEMES]
    for key, value in _table(content.get("defaults", {}), "defaults").items():
        if (name := key.replace("_", "-")) in commands:
            of_scheme[name] = named(_table(value, f"defaults.{name}"), scheme(name).settings.model_fields)
        else:
            everywhere[key] = value
    config = Config(path, models, _underscored(everywhere, [*_fields(everywhere), *commands]), of_scheme)
    if not os.environ.get(VARIABLE) and path == Path(NAME):
        _check_runs_nothing([config.everywhere, *of_scheme.values()])
    return config


def _check_runs_nothing(tables: Iterable[Mapping[str, Any]]) -> None:  # Any: TOML values
    for name, value in ((name, value) for table in tables for name, value in table.items()):
        if name in OF_PROGRAMS or (name in IMPORTED and IMPORTED[name].search(str(value))):
            raise UnknownName(
                f"{name} is {value!r}, which lets code run, and the folder may come from somebody else; set it on the "
                f"command line, in {str(config_folder() / NAME)!r}, or in a file that {VARIABLE} names"
            )


def _fields(values: Values) -> set[str]:
    """Return the settings of all bundled schemes; with those of other packages if a value is for none of these."""
    fields = {name for each in shipped() for name in each.settings.model_fields}
    if all(key.replace("-", "_") in fields for key in values):
        return fields
    return {name for each in schemes() for name in each.settings.model_fields}


def _model(name: str, values: Values) -> Values:
    values = _underscored(values, EACH)
    if lists := [key for key, value in values.items() if isinstance(value, list)]:
        raise UnknownName(f"{lists[0]} of model {name!r} is a list; expected the value of one model")
    return {"model": name, **values}


def _underscored(values: Values, known: Iterable[str]) -> Values:
    values = {key.replace("-", "_"): value for key, value in values.items()}
    _check_names("setting", values, known)
    return values


def _check_names(kind: str, values: Mapping[str, Any], known: Iterable[str]) -> None:  # Any: TOML values
    for name in values:
        if name not in known:
            raise UnknownName(nearest(kind, name, known))


def _table(value: Any, key: str) -> Values:  # Any: a TOML value
    if not isinstance(value, dict):
        raise UnknownName(f"{key} is {value!r}; expected a table: [{key}]")
    return value


def show_config() -> None:
    """Show the named models and defaults in force here, and the file that sets them."""
    config = read_config()
    print(f"file: {config_path() or 'none of ' + ', '.join(map(str, candidates()))}")
    tables = {f"model {name}": values for name, values in config.models.items()}
    tables |= {"defaults": dict(config.everywhere)} if config.everywhere else {}
    tables |= {f"defaults of {name}": values for name, values in config.of_scheme.items()}
    for name, values in tables.items():
        print(one_line(f"{name}: {words(values)}"))
