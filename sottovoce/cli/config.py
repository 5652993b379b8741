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

from pydantic.fields import FieldInfo

from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.paths import config_folder
from sottovoce.core.regular_files import text_of
from sottovoce.core.text import one_line
from sottovoce.graphs import SCHEMES, scheme, schemes, shipped
from sottovoce.settings import Settings
from sottovoce.settings.base import EACH
from sottovoce.settings.plain import UnknownName, named

UNSET = {"dtype": "auto", "weights": "auto", "device": "auto", "system": ""}
"""Values for a model that lacks a setting which another model of the same run has."""
Given = dict[str, Any]  # Any: values as TOML has them, or as typed
NAME = "sottovoce.toml"
VARIABLE = "SOTTOVOCE_CONFIG"
KEYS = ("models", "defaults")
OF_PROGRAMS = ("sandbox", "unsafe")
SOURCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+:[A-Za-z_]")
"""The Python name of a retriever; without a dot it names one that is registered."""
RERANKER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]")
"""The Python name of a reranker; its module needs no dot."""
IMPORTED = {"library": SOURCE, "wiki": SOURCE, "google": SOURCE, "rerank": RERANKER}
"""Settings that may name something to import."""


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

    def applied(self, settings: type[Settings], chosen: Given) -> str:
        """Return in one line the defaults and named models that apply to the chosen settings; empty if none do."""
        defaults = {key: value for key, value in self.defaults(settings).items() if key not in chosen}
        names = dict.fromkeys(_listed({**defaults, **chosen}.get("model", [])))
        meant = [f"{name} is {words(self.models[name])}" for name in names if name in self.models]
        parts = [*([f"defaults {words(defaults)}"] if defaults else []), *meant]
        return f"{self.name}: {'; '.join(parts)}" if parts else ""

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


def _read(path: Path) -> Given:
    import tomllib

    try:
        return tomllib.loads(text_of(path))
    except OSError as error:
        raise UsageError(f"config file {str(path)!r} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"config file {str(path)!r} is nested too deeply; expected tables of plain values") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"config file {str(path)!r} is not TOML: {error}") from error


def _checked(path: Path, read: Given) -> Config:
    _check_names("key", read, KEYS)
    tables = {key: _table(read.get(key, {}), key) for key in KEYS}
    models = {name: _model(name, _table(each, f"models.{name}")) for name, each in tables["models"].items()}
    commands = [_command(name) for name in SCHEMES]
    own = {_command(key): each for key, each in tables["defaults"].items() if _command(key) in commands}
    everywhere = {key: each for key, each in tables["defaults"].items() if _command(key) not in commands}
    of_scheme = {
        name: named(_table(each, f"defaults.{name}"), scheme(name).settings.model_fields) for name, each in own.items()
    }
    config = Config(path, models, _plain(everywhere, _fields(everywhere), commands), of_scheme)
    if not os.environ.get(VARIABLE) and path == Path(NAME):
        _check_runs_nothing([config.everywhere, *of_scheme.values()])
    return config


def _check_runs_nothing(tables: Iterable[Mapping[str, Any]]) -> None:  # Any: TOML values
    for name, value in ((name, value) for each in tables for name, value in each.items()):
        if name in OF_PROGRAMS or (name in IMPORTED and IMPORTED[name].search(str(value))):
            raise UnknownName(
                f"{name} is {value!r}, which lets code run, and the folder may come from somebody else; set it on the "
                f"command line, in {str(config_folder() / NAME)!r}, or in a file that {VARIABLE} names"
            )


def _fields(given: Given) -> dict[str, FieldInfo]:
    """Return the fields of all bundled schemes; with those of other packages if a given setting is in none of these."""
    fields = {name: info for each in shipped() for name, info in each.settings.model_fields.items()}
    if all(key.replace("-", "_") in fields for key in given):
        return fields
    return {name: info for each in schemes() for name, info in each.settings.model_fields.items()}


def _model(name: str, given: Given) -> Given:
    """Return the settings of a named model, with values as on the command line."""
    found = _plain(given, {key: Settings.model_fields[key] for key in EACH}, [])
    if lists := [key for key, value in found.items() if isinstance(value, list)]:
        raise UnknownName(f"{lists[0]} of model {name!r} is a list; expected the value of one model")
    return {"model": name, **found}


def _plain(given: Given, fields: Mapping[str, FieldInfo], besides: list[str]) -> Given:
    """Return settings with underscores in their names, after checking that all are known."""
    found = {key.replace("-", "_"): value for key, value in given.items()}
    _check_names("setting", found, [*fields, *besides])
    return found


def _check_names(kind: str, given: Mapping[str, Any], known: Iterable[str]) -> None:  # Any: TOML values
    for name in given:
        if name not in known:
            raise UnknownName(nearest(kind, name, known))


def _table(given: Any, key: str) -> Given:  # Any: a TOML value
    if not isinstance(given, dict):
        raise UnknownName(f"{key} is {given!r}; expected a table: [{key}]")
    return given


def _command(key: str) -> str:
    return key.replace("_", "-")


def show_config() -> None:
    """Show the named models and defaults in force here, and the file that sets them."""
    config = read_config()
    print(f"file: {config_path() or 'none of ' + ', '.join(map(str, candidates()))}")
    tables = {f"model {name}": values for name, values in config.models.items()}
    tables |= {"defaults": dict(config.everywhere)} if config.everywhere else {}
    tables |= {f"defaults of {name}": values for name, values in config.of_scheme.items()}
    for name, values in tables.items():
        print(one_line(f"{name}: {words(values)}"))
