"""Command-line options made from pydantic models, so that each option is declared once.

Values reach the models as typed. The models parse and validate them, so that the command line
and a settings file follow the same rules and raise the same errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sottovoce.cli import completion
from sottovoce.cli.config_file import read_config
from sottovoce.core.errors import UsageError
from sottovoce.core.sizes import Size
from sottovoce.core.text import one_line
from sottovoce.settings import Settings
from sottovoce.settings.option_groups import FIRST, HEADINGS, heading
from sottovoce.settings.plain import UnknownName, is_repeated, named, read_yaml

FILE = "settings"
FILE_HELP = "a YAML file of these options; the command line takes precedence"
METAVARS: dict[Any, str] = {
    int: "N",
    float: "X",
    bool: "on|off",
    Path: "PATH",
    Size: "SIZE",
    dict: "NAME=VALUE",
}  # Any: a type
KEYWORD = inspect.Parameter.KEYWORD_ONLY
Model = TypeVar("Model", bound=BaseModel)
Given = dict[str, Any]  # Any: strings, lists of strings and flags, as typed


def command(body: Callable[..., Any], *models: type[BaseModel]) -> Callable[..., Any]:  # Any: an exit code or None
    """Return a typer command that builds one value of each model from its options and passes them to `body`.

    A model of settings also takes a YAML file (`--settings`); the command line takes precedence. Its most common
    options come first, and the rest in groups by topic (`sottovoce/settings/option_groups.py`).
    """
    first = any(issubclass(model, Settings) for model in models)
    parameters = [each for model in models for each in _parameters(model, first)]
    parameters.sort(key=_rank)

    def run(**given: Any) -> Any:  # Any: see Given, and above
        return body(*(build(model, given) for model in models))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def build(model: type[Model], given: Given) -> Model:
    """Build a model's value from the typed options; settings also come from files (see `config.py`).

    Raises:
        UsageError: a value is invalid, or a file cannot be read.
    """
    names = [_name(field, info) for field, info in model.model_fields.items()]
    typed = {name: given[name] for name in names if given.get(name) not in (None, False)}
    if not issubclass(model, Settings):
        return model.model_validate(typed)
    if given.get(FILE) is not None:
        typed = {**from_file(Path(given[FILE]), model), **typed}
    return model.model_validate(_with_defaults(model, typed))


def _with_defaults(model: type[Settings], typed: Given) -> Given:
    """Return the chosen values completed with the user's defaults, and report on stderr which defaults apply."""
    config = read_config()
    filled = config.filled(model, typed)
    try:
        model.model_validate(filled)
    except UsageError as error:
        model.model_validate(typed)  # raises if the chosen values are wrong by themselves
        raise UsageError(f"{error} (with what {config.name} gives)") from error
    if told := config.told(model, typed):
        typer.echo(f"sottovoce: {one_line(told)}", err=True)
    return filled


def from_file(path: Path, model: type[Settings]) -> Given:
    """Return settings from a YAML file; names are as on the command line, with dashes or underscores.

    Raises:
        UsageError: the file is missing, not YAML, not a mapping, or has an unknown name.
    """
    try:
        return named(read_yaml(path, "settings file", "rounds: 2"), model.model_fields)
    except UnknownName as error:
        raise UsageError(f"{error} (settings file {str(path)!r})") from error


def _parameters(model: type[BaseModel], first: bool) -> list[inspect.Parameter]:
    panel = model.model_config.get("title") or "Settings"
    found = []
    for field, info in model.model_fields.items():
        name = _name(field, info)
        own = heading(name) if issubclass(model, Settings) else panel
        found.append(_parameter(name, info, None if first and name in FIRST else own))
    if issubclass(model, Settings):
        file = typer.Option("--settings", metavar="FILE", help=FILE_HELP)
        found.append(inspect.Parameter(FILE, KEYWORD, default=None, annotation=Annotated[str | None, file]))
    return found


def _rank(parameter: inspect.Parameter) -> int:
    """Return the sort key: the options of `FIRST` in its order, then settings by heading, then all others."""
    panel = getattr(parameter.annotation.__metadata__[0], "rich_help_panel", None)
    if panel is None:
        return FIRST.index(parameter.name) if parameter.name in FIRST else -1
    return len(FIRST) + (HEADINGS.index(panel) if panel in HEADINGS else len(HEADINGS))


def _parameter(name: str, info: FieldInfo, panel: str | None) -> inspect.Parameter:
    kind: Any = list[str] if is_repeated(info) else bool if _is_flag(info) else str  # Any: a type
    extra = info.json_schema_extra
    if isinstance(extra, dict) and extra.get("positional"):
        offer = completion.runs if extra["positional"] == "run" else None
        argument = typer.Argument(metavar=name.upper(), help=info.description, show_default=False, autocompletion=offer)
        return inspect.Parameter(name, KEYWORD, default=None, annotation=Annotated[kind | None, argument])
    option = typer.Option(
        f"--{name.strip('_').replace('_', '-')}",  # fields named after a Python keyword end in _
        help=f"{info.description}{_default(info)}",
        metavar=_metavar(info),
        show_default=False,
        rich_help_panel=panel,
        autocompletion=_offer(name, info),
    )
    if kind is bool:
        return inspect.Parameter(name, KEYWORD, default=False, annotation=Annotated[bool, option])
    return inspect.Parameter(name, KEYWORD, default=None, annotation=Annotated[kind | None, option])


def _name(field: str, info: FieldInfo) -> str:
    return info.alias or field


def _default(info: FieldInfo) -> str:
    """Return the note about a default, as it would be typed; empty if there is no default."""
    if not info.default:
        return ""
    if info.default is True:
        return " (default: on)"
    values = info.default if is_repeated(info) else [info.default]
    return f" (default: {' '.join(map(str, values))})"


def _offer(name: str, info: FieldInfo) -> completion.Offer | None:
    """Return the completion of a value; None leaves it to the shell, which completes file names."""
    if name == "model":
        return completion.models
    values = _choices(info)
    return completion.choices(values) if values else None


def _metavar(info: FieldInfo) -> str | None:
    """Return the placeholder of a value: its choices or its type, with dots if the option may be repeated."""
    if _is_flag(info):
        return None
    kind = _kind(info)
    word = "|".join(_choices(info)) or METAVARS.get(get_origin(kind) or kind, METAVARS.get(kind, "TEXT"))
    return f"{word} ..." if is_repeated(info) else word


def _kind(info: FieldInfo) -> Any:  # Any: a type
    """Return the type of one value of a field."""
    kind: Any = info.annotation
    if get_origin(kind) in (list, tuple, Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is Annotated and kind not in METAVARS else kind


def _choices(info: FieldInfo) -> list[str]:
    """Return the possible values of a field with a closed set; [] if it takes others too."""
    kind = _kind(info)
    return list(get_args(kind)) if get_origin(kind) is Literal else _registered(info)


def _registered(info: FieldInfo) -> list[str]:
    """Return the registered names that a field accepts, from its schema; with those of other packages."""
    schema: dict[str, Any] = {}  # Any: JSON
    parts = [part for each in get_args(info.annotation) for part in getattr(each, "__metadata__", ())]  # if optional
    for field in (info, *(part for part in parts if isinstance(part, FieldInfo))):
        if callable(field.json_schema_extra):
            field.json_schema_extra(schema)
    return [str(name) for name in schema.get("enum", [])]


def _is_flag(info: FieldInfo) -> bool:
    """Return whether the option is a flag without a value; a switch that is on by default takes on or off instead."""
    return info.annotation is bool and info.default is False
