"""Commands that belong together, and what several of them are told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import typer
from pydantic import BaseModel
from typer.core import TyperCommand, TyperGroup

from sottovoce import completing
from sottovoce.commands.help import show_help
from sottovoce.errors import UsageError, choose
from sottovoce.graphs import NAMES, SCHEMES, scheme
from sottovoce.options import command

REPEAT = "Options with ... may be given several times, once for each value."
NOUNS = {"draw": "scheme", "symmetry": "scheme", "games": "world", "tune": "scheme", "step": "scheme"}
"""What the commands below these are; below others they are commands."""
PATHS = ("PATH", "FILE")
"""How options show that they take one."""
RUN = typer.Argument(
    metavar="RUN",
    help="a name that `runs list` shows, or its beginning; `latest`; or a folder",
    autocompletion=completing.runs,
)
RUNS = typer.Argument(
    metavar="RUN ...",
    help="as for `runs show`; the folder of an experiment is all its rows",
    autocompletion=completing.runs,
)
Body = TypeVar("Body", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help keeps words whole, and that passes over nothing that was typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Any: typer's own types are private
        """As typer does, but that an option which takes one value is refused where it is given twice.

        Raises:
            UsageError: it is, or a path is empty.
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
        """In panels, at any width."""
        show_help(self, ctx)


class Later(Command):
    """A command of a scheme that another package brings: its callback makes the command, when it is called."""


class Commands(TyperGroup):
    """Commands that are listed when an unknown one is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # Any: typer's own types are private
        """In panels, at any width."""
        show_help(self, ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # Any: typer's own types are private
        """As typer does, but for the error."""
        if args and (dashed := args[0].replace("_", "-")) in self.commands:
            args = [dashed, *args[1:]]
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            kind = NOUNS.get(ctx.info_name or "", "command")
            raise UsageError(choose(kind, args[0], list(self.commands)))
        name, found, rest = super().resolve_command(ctx, args)
        return name, found.callback() if isinstance(found, Later) and found.callback else found, rest


class App(typer.Typer):
    """An app whose commands are all of our kind."""

    def command(
        self,
        name: str | None = None,
        **told: Any,  # Any: as typer has it
    ) -> Callable[[Body], Body]:
        """As typer's."""
        return super().command(name, cls=Command, **told)


def area() -> App:
    """An app for the commands of one module; added to another without a name, its commands become that one's."""
    return App(cls=Commands)


def group(above: typer.Typer, name: str, told: str) -> App:
    """An app for the commands below one with this name."""
    below = App(cls=Commands, help=told)
    above.add_typer(below, name=name)
    return below


def add_schemes(above: App, body: Callable[..., Any], *models: type[BaseModel]) -> None:
    """Add a command for each scheme, with its settings and `models` as options; `body` takes its name and these.

    Help lists what other packages bring in the words of the package; nothing of it is loaded before it is called.
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
    """Return what makes the command of a scheme; it raises a `UsageError` where the package is broken."""

    def made() -> Any:  # Any: typer's own types are private
        alone = App(cls=Commands, add_completion=False)
        _add_scheme(alone, name, body, *models)
        return typer.main.get_command(alone)

    return made
