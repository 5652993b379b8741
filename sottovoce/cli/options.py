"""Options of commands from the fields of pydantic models, so that each is declared once.

Values reach the models as typed. The models parse and validate them, so that the command line
and a settings file follow the same rules and raise the same errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import Size, Thinking
from sottovoce.core.errors import UsageError
from sottovoce.core.files import FORCE_VERDICTS, read_yaml
from sottovoce.core.validation import Checked
from sottovoce.nodes.option_groups import BY_NAME, FIRST, GROUPS, HEADINGS, UnknownName, heading, is_repeated, named
from sottovoce.nodes.settings import Settings

FILE = "settings"
FILE_HELP = "A YAML file of these options; the command line takes precedence."
METAVARS: dict[Any, str] = {  # Any: a type
    int: "N",
    float: "X",
    bool: "on|off",
    Path: "PATH",
    Size: "SIZE",
    dict: "NAME=VALUE",
    tuple: "OPEN CLOSE",
    Thinking: "on|off|N",
}
COMMON = ("sample", "questions", "limit", "document", "kind", "prompts", "quiet")
"""The options that most people need besides `FIRST` and the scheme's own."""
RARE = (*GROUPS, "Question", "Limits", "Output", "Trust")
"""Headings whose other options are left out of the short help of a command with settings."""
BRIEF = 52
"""Characters of a brief help text that needs no shortening at a comma."""
WIDEST = 52
"""Characters of an option's values; a longer list is only in the description."""
Model = TypeVar("Model", bound=BaseModel)
Typed = dict[str, Any]  # Any: strings, tuples of strings and flags


class Argument(click.Argument):
    """A positional argument with a help text."""

    heading = ""
    common = True
    multiple = False

    def __init__(self, name: str, info: FieldInfo, metavar: str) -> None:
        """Make the argument of a field; one that is a list takes all remaining words."""
        repeated = is_repeated(info)
        super().__init__(
            [name],
            required=info.is_required(),
            metavar=f"{metavar} ..." if repeated and not metavar.endswith("]") else metavar,
            nargs=-1 if repeated else 1,
            type=click.UNPROCESSED,
            shell_complete=partial(_completions, ()),
        )
        self.about, self.is_path = info.description or "", _kind(info) is Path

    @property
    def clause(self) -> str:
        """The beginning of the help text."""
        return _clause(self.about)

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the placeholder for the usage line, in brackets if the argument may be left out."""
        placeholder = self.make_metavar(ctx)
        return [placeholder if self.required or placeholder.startswith("[") else f"[{placeholder}]"]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return the placeholder and the help text."""
        return self.make_metavar(ctx), self.about


class Option(click.Option):
    """An option with the heading under which the help lists it; `common` ones are in the short help."""

    def __init__(self, name: str, info: FieldInfo, heading: str, common: bool) -> None:
        """Make the option of a field; a switch that is on by default is no flag, but takes on or off."""
        kind, choices, repeated = _kind(info), _choices(info), is_repeated(info)
        flag = info.annotation is bool and info.default is False
        plain = name.strip("_").replace("_", "-")  # fields named after a Python keyword end in _
        word = "|".join(choices) if len("|".join(choices)) <= WIDEST else "NAME"
        word = word or METAVARS.get(get_origin(kind) or kind, METAVARS.get(kind, "TEXT"))
        values = " ".join(map(str, info.default if repeated else [info.default])) if info.default else ""
        default = f" (default: {'on' if info.default is True else values})" if values and not info.is_required() else ""
        super().__init__(
            [f"-{name}" if info.alias and len(name) == 1 else f"--{plain}", name],
            help=f"{info.description}{default}",
            metavar=None if flag else f"{word} ..." if repeated else word,
            multiple=repeated,
            nargs=2 if get_origin(kind) is tuple and not repeated else 1,
            required=info.is_required(),
            type=None if flag else click.UNPROCESSED,
            is_flag=flag or None,
            shell_complete=partial(_completions, choices),
        )
        self.about, self.shown_default = info.description or "", default
        self.heading, self.common, self.is_path = heading, common, kind is Path

    @property
    def clause(self) -> str:
        """The beginning of the help text, with the default."""
        return f"{_clause(self.about)}{self.shown_default}"


def argument(description: str, metavar: str, **more: JSONValue) -> JSONValue:
    """Return a field that is a positional argument; without a default it is required."""
    return Field(description=description, json_schema_extra={"positional": metavar}, **more)


def parameters(models: tuple[type[BaseModel], ...]) -> list[Argument | Option]:
    """Return the arguments and options of these models; with settings, the most common ones first, then by heading."""
    settings = next((model for model in models if issubclass(model, Settings)), None)
    with_settings = settings is not None
    plays = settings is not None and settings.check_game is not Settings.check_game
    options: list[Argument | Option] = []
    for model in models:
        of_settings = issubclass(model, Settings)
        for field, info in model.model_fields.items():
            name, extra = info.alias or field, info.json_schema_extra
            if (of_settings and name in BY_NAME) or (isinstance(extra, dict) and extra.get("command") is False):
                continue
            if isinstance(extra, dict) and (metavar := extra.get("positional")):
                options.append(Argument(name, info, name.upper() if metavar is True else str(metavar)))
                continue
            title = "" if with_settings and name in FIRST else model.model_config.get("title") or ""
            title = heading(name) or "" if of_settings else title
            option = Option(name, info, title, not with_settings or title not in RARE or name in COMMON)
            if isinstance(extra, dict) and extra.get("worlds"):
                option.hidden = not plays  # elsewhere it is still taken, and refused with the reason
            options.append(option)
        if of_settings:
            file = FieldInfo(annotation=Path | None, default=None, description=FILE_HELP)
            options.append(Option(FILE, file, "", True))
    return sorted(options, key=_rank) if with_settings else options


def _rank(parameter: Argument | Option) -> tuple[int, int]:
    """Return the sort key: the options of `FIRST` in its order, then settings by heading, then all others."""
    if not parameter.heading:
        return 0, FIRST.index(parameter.name) if parameter.name in FIRST else -1
    return 1, HEADINGS.index(parameter.heading) if parameter.heading in HEADINGS else len(HEADINGS)


def build(model: type[Model], typed: Typed) -> Model:
    """Build a model's value from the typed options; settings also come from the file of `--settings`."""
    names = [info.alias or field for field, info in model.model_fields.items()]
    chosen = {name: typed[name] for name in names if typed.get(name) not in (None, False, ())}
    chosen = {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}
    if issubclass(model, Settings):
        file = from_file(Path(typed[FILE]), model) if typed.get(FILE) is not None else {}
        split = [text.partition("=") for text in chosen.get("option", [])]  # some are fields of their own
        by_name = {name.replace("-", "_"): value for name, _, value in split if name.replace("-", "_") in BY_NAME}
        rest = ["".join(parts) for parts in split if parts[0].replace("-", "_") not in BY_NAME]
        chosen = {**file, **chosen, **by_name, **({"option": rest} if split else {})}
    return model.model_validate(chosen)


SETTING = re.compile(r"`([a-z]\w*)=(?:'([^'`]*)'|(\w*))`")
"""A setting in an error, as Python writes it: `fallback='nl'`, `agents=3`, `exact=True`, or `probe_from=`."""

SPELLED = {"columns": "column", "on_missing": "lost"}
"""Settings whose options have other names."""


def as_options(message: str) -> str:
    """Return an error with options in place of the settings that it names: --fallback nl, --exact, --probe-from."""

    def option(setting: re.Match[str]) -> str:
        name, text, value = setting.groups()
        value = text or {"True": "", "False": "off"}.get(value, value)
        option = SPELLED.get(name, name).replace("_", "-")
        return f"--option {option}={value}".rstrip("=") if name in BY_NAME else f"--{option} {value or ''}".rstrip()

    return SETTING.sub(option, message)


def from_file(path: Path, model: type[Settings]) -> Typed:
    """Return settings from a YAML file; names are as on the command line, with dashes or underscores."""
    try:
        return named(read_yaml(path, "settings file", "rounds: 2"), model.model_fields)
    except UnknownName as error:
        raise UsageError(f"{error} (settings file {str(path)!r})") from error


def _completions(values: Sequence[str], ctx: click.Context, option: click.Parameter, typed: str) -> Any:
    """Return the values of a closed set that match; without values the shell completes the name of a file."""
    return [value for value in values if value.startswith(typed)] if values else [CompletionItem(typed, type="file")]


def _clause(text: str) -> str:
    """Return the beginning of a help text, up to the first period, semicolon or colon; of a long one up to a comma."""
    clause = re.split(r"[.;:](?: |$)", text, maxsplit=1)[0]
    return clause.rpartition(", ")[0] if len(clause) > BRIEF and ", " in clause else clause


def _kind(info: FieldInfo) -> Any:  # Any: a type
    kind: Any = info.annotation
    if get_origin(kind) in (list, tuple, Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is Annotated and kind not in METAVARS else kind


def _choices(info: FieldInfo) -> list[str]:
    """Return the values of a closed set, or the registered names in the field's schema; [] if it takes others too."""
    kind = _kind(info)
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    schema: JSON = {}
    parts = [part for each in get_args(info.annotation) for part in getattr(each, "__metadata__", ())]  # if optional
    for field in (info, *(part for part in parts if isinstance(part, FieldInfo))):
        if callable(field.json_schema_extra):
            field.json_schema_extra(schema)
    return [str(name) for name in schema.get("enum", [])]


class OutputFiles(Checked):
    """The options for files that a command writes about runs."""

    model_config = ConfigDict(title="Files")

    to: list[Path] = Field(
        default=[],
        description="Also write the tables to this file: .csv, .json (numbers, not rounded), .md or .tex (LaTeX).",
    )
    columns: list[str] = Field(
        default=[], description="Columns of .tex and .md files by their printed headings: 'accuracy | 95 % | calls'."
    )
    plots: Path | None = Field(
        default=None,
        description="Also write plots to this folder, as PNG and SVG: right with intervals, right by tokens and by "
        "bytes, votes by round.",
    )
    force: bool = Field(default=False, description=FORCE_VERDICTS)


class Output(Checked):
    """The wanted output of a run."""

    model_config = ConfigDict(title="Output")

    as_json: bool = Field(default=False, alias="json", description="Print one JSON object on stdout, and nothing else.")
    save: Path | None = Field(
        default=None, description="Save the run in this folder instead of the default one, which `runs list` shows."
    )
    show_prompts: bool = Field(default=False, description="Also print the prompt of each message.")
    quiet: bool = Field(default=False, description="Print only the decision.")
