"""Command-line options made from pydantic models, so that each option is declared once.

Values reach the models as they were typed; the models read and refuse them, so that command line
and settings file are held to the same rules and complain in the same words.
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

from sottovoce.errors import UsageError
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.settings.plain import UnknownName, is_repeated, named, read_yaml
from sottovoce.sizes import Size

FILE = "settings"
FILE_HELP = "a YAML file of these options; the command line wins"
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
Given = dict[str, Any]  # Any: strings, lists of strings and flags, as they were typed


def command(body: Callable[..., None], *models: type[BaseModel]) -> Callable[..., None]:
    """A typer command that builds one value of each model from its options and passes them to `body`.

    A model of settings also takes a YAML file (`--settings`), over which the command line wins.
    """
    parameters = [each for model in models for each in _parameters(model)]

    def run(**given: Any) -> None:  # Any: see Given
        body(*(build(model, given) for model in models))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def build(model: type[Model], given: Given) -> Model:
    """A model's value from the options that were given.

    Raises:
        UsageError: a value does not fit, or the settings file cannot be read.
    """
    names = [_name(field, info) for field, info in model.model_fields.items()]
    typed = {name: given[name] for name in names if given.get(name) not in (None, False)}
    if issubclass(model, Settings) and given.get(FILE) is not None:
        typed = {**from_file(Path(given[FILE]), model), **typed}
    return model.model_validate(typed)


def from_file(path: Path, model: type[Settings]) -> Given:
    """Settings from a YAML file; names as on the command line, with dashes or underscores.

    Raises:
        UsageError: no such file, no YAML, no mapping, or an unknown name.
    """
    try:
        return named(read_yaml(path, "settings file", "rounds: 2"), model.model_fields)
    except UnknownName as error:
        raise UsageError(f"{error} (settings file {str(path)!r})") from error


def _parameters(model: type[BaseModel]) -> list[inspect.Parameter]:
    panel = model.model_config.get("title") or "Settings"
    found = [_parameter(_name(name, info), info, panel) for name, info in model.model_fields.items()]
    if issubclass(model, Settings):
        file = typer.Option("--settings", metavar="FILE", help=FILE_HELP, rich_help_panel=panel)
        found.append(inspect.Parameter(FILE, KEYWORD, default=None, annotation=Annotated[str | None, file]))
    return found


def _parameter(name: str, info: FieldInfo, panel: str) -> inspect.Parameter:
    kind: Any = list[str] if is_repeated(info) else bool if _is_flag(info) else str  # Any: a type
    extra = info.json_schema_extra
    if isinstance(extra, dict) and extra.get("positional"):
        argument = typer.Argument(metavar=name.upper(), help=info.description, show_default=False)
        return inspect.Parameter(name, KEYWORD, default=None, annotation=Annotated[kind | None, argument])
    option = typer.Option(
        f"--{name.strip('_').replace('_', '-')}",  # a name that Python keeps for itself ends in _
        help=f"{info.description}{_default(info)}",
        metavar=_metavar(info),
        show_default=False,
        rich_help_panel=panel,
    )
    if kind is bool:
        return inspect.Parameter(name, KEYWORD, default=False, annotation=Annotated[bool, option])
    return inspect.Parameter(name, KEYWORD, default=None, annotation=Annotated[kind | None, option])


def _name(field: str, info: FieldInfo) -> str:
    return info.alias or field


def _default(info: FieldInfo) -> str:
    """A default as it would be typed, where there is one."""
    if not info.default:
        return ""
    if info.default is True:
        return " (default: on)"
    values = info.default if is_repeated(info) else [info.default]
    return f" (default: {' '.join(map(str, values))})"


def _metavar(info: FieldInfo) -> str | None:
    """What a value looks like: its choices, or its type; dots where the option may be repeated."""
    if _is_flag(info):
        return None
    kind: Any = info.annotation  # Any: a type
    if get_origin(kind) in (list, tuple, Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Annotated and kind not in METAVARS:
        kind = get_args(kind)[0]
    choices = get_args(kind) if get_origin(kind) is Literal else _registered(info)
    word = "|".join(choices) or METAVARS.get(get_origin(kind) or kind, METAVARS.get(kind, "TEXT"))
    return f"{word} ..." if is_repeated(info) else word


def _registered(info: FieldInfo) -> list[str]:
    """The names that a field of a registry takes: its schema has them, those of other packages too."""
    schema: dict[str, Any] = {}  # Any: JSON
    if callable(info.json_schema_extra):
        info.json_schema_extra(schema)
    return [str(name) for name in schema.get("enum", [])]


def _is_flag(info: FieldInfo) -> bool:
    """Off unless it is given; a switch that is on by default takes on or off."""
    return info.annotation is bool and info.default is False
