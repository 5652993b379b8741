"""Groups of commands, and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import typer
from pydantic import BaseModel
from typer.core import TyperCommand, TyperGroup

from sottovoce.cli import completion
from sottovoce.cli.commands.help import show_help
from sottovoce.cli.scheme_options import command
from sottovoce.core.errors import UsageError, choose
from sottovoce.graphs import NAMES, SCHEMES, scheme

REPEAT = "Options shown with ... may be given several times, once for each value."
NOUNS = {"draw": "scheme", "symmetry": "scheme", "games": "world", "tune": "scheme", "step": "scheme"}
"""The word for the subcommands of these commands; elsewhere it is "command"."""
MOVED = {
    **{name: f"runs {name}" for name in ("compare", "measures", "report", "audit", "verify", "judge")},
    **{name: f"experiment {name}" for name in ("reproduce", "tune", "layers")},
    **{name: f"data {name}" for name in ("games", "index", "convince")},
    **{name: f"graph {name}" for name in ("list", "draw", "symmetry")},
    "doctor": "models doctor",
    "datasets": "data list` or `data show",
    "runs prune": "runs remove --keep N",
}
"""The new names of commands, by their names before the groups."""
PATHS = ("PATH", "FILE")
"""Metavars of options that take a path."""
RUN = typer.Argument(
    metavar="RUN",
    help="A run's name as `runs list` shows it, or the beginning of one; `latest`; or a folder.",
    autocompletion=completion.runs,
)
RUNS = typer.Argument(
    metavar="RUN ...",
    help="Runs, as for `runs show`; an experiment's folder stands for all its runs.",
    autocompletion=completion.runs,
)
Body = TypeVar("Body", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help never splits words, and that refuses arguments which typer would silently ignore."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Any: typer's own types are private
        """Parse the arguments as typer does, but refuse a repeated option that takes one value.

        Raises:
            UsageError: such an option is repeated, or a path is empty.
        """
        given, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for each in order:
            if order.count(each) > 1 and not each.multiple and not getattr(each, "is_flag", False):
                raise UsageError(
                    f"{each.opts[-1]} was given {order.count(each)} times; expected once: one value counts"
                )
            kind: Any = getattr(each, "type_descriptor", None)  # Any: typer's own
            is_path = getattr(kind, "annotation", None) is Path or each.metavar in PATHS
            if is_path and given.get(each.name) == "":
                raise UsageError(f"{each.opts[-1]} is empty; expected a path")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # Any: typer's own types are private
        """Print the help in panels, at any width."""
        show_help(self, ctx)


class Later(Command):
    """The command of a scheme from another package; its callback builds the real command when it is called."""


class Commands(TyperGroup):
    """A group whose error for an unknown command lists the known ones."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # Any: typer's own types are private
        """Print the help in panels, at any width."""
        show_help(self, ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # Any: typer's own types are private
        """Find a command as typer does, but with dashes and underscores alike and with our own error."""
        if args and (dashed := args[0].replace("_", "-")) in self.commands:
            args = [dashed, *args[1:]]
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            kind = NOUNS.get(ctx.info_name or "", "command")
            if new := MOVED.get(" ".join([*ctx.command_path.split()[1:], args[0]])):
                raise UsageError(f"unknown {kind} {args[0]!r}; it is `{new}` now")
            raise UsageError(choose(kind, args[0], list(self.commands)))
        name, found, rest = super().resolve_command(ctx, args)
        return name, found.callback() if isinstance(found, Later) and found.callback else found, rest


class App(typer.Typer):
    """A typer app whose commands are of class `Command`."""

    def command(
        self,
        name: str | None = None,
        **told: Any,  # Any: as typer has it
    ) -> Callable[[Body], Body]:
        """Register a command as typer does."""
        return super().command(name, cls=Command, **told)


def area() -> App:
    """Return an app for the commands of one module; added to another app without a name, it adds its commands there."""
    return App(cls=Commands)


def group(above: typer.Typer, name: str, told: str) -> App:
    """Add a command with this name and help to `above`, and return the app for its subcommands."""
    below = App(cls=Commands, help=told)
    above.add_typer(below, name=name)
    return below


def add_schemes(above: App, body: Callable[..., Any], *models: type[BaseModel]) -> None:
    """Add a command for each scheme, with its settings and `models` as options; `body` takes the name and these values.

    Help describes schemes of other packages with the package's summary; they are loaded only when called.
    """
    for name in SCHEMES:
        if name in NAMES:
            _add_scheme(above, name, body, *models)
        else:
            made = _later(name, body, *models)
            typer.Typer.command(above, name.replace("_", "-"), cls=Later, help=SCHEMES.summary(name))(made)


def _add_scheme(above: App, name: str, body: Callable[..., Any], *models: type[BaseModel]) -> None:
    found = scheme(name)
    above.command(found.command, help=found.summary, epilog=REPEAT)(
        command(partial(body, found.name), found.settings, *models)
    )


def _later(name: str, body: Callable[..., Any], *models: type[BaseModel]) -> Callable[[], Any]:
    """Return a function that builds the command of a scheme; it raises a `UsageError` if the package is broken."""

    def made() -> Any:  # Any: typer's own types are private
        alone = App(cls=Commands, add_completion=False)
        _add_scheme(alone, name, body, *models)
        return typer.main.get_command(alone)

    return made
