"""Commands with pydantic models as options, and groups of commands. A group of schemes creates its commands on use."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Timer
from typing import Any, TypeVar

import click
from pydantic import BaseModel
from rich.console import Console

from sottovoce.cli.options import RARE, build, parameters
from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.text import one_line, say
from sottovoce.graphs import NAMES, SCHEMES, scheme

Body = TypeVar("Body", bound=Callable[..., Any])
Row = tuple[str, str]
"""A command and its summary."""
REPEAT = "Options shown with ... may be given several times, once for each value."
OPTIONS, EVERY = "Options", "sottovoce.every"
"""The heading of options without one of their own, and the key of click's `meta` that asks for all options."""
LATE = 3.0
"""Seconds of a step after which a pipe's reader is told."""
GROUPS = {
    "runs": "Show, resume, compare, verify and report saved runs.",
    "view": "Open a page of runs in a browser; it grows while they run.",
    "experiment": "Run experiments and papers' tables, search settings.",
    "models": "Download, list, remove and examine models.",
    "bridge": "Fit and show bridges between two models.",
    "data": "Show data sets, generate games, build passage indexes.",
    "monitor": "Train, evaluate and show monitors, which predict failure.",
    "graph": "List schemes, draw their graphs, show their symmetries.",
    "payloads": "Remove payload files of messages that nothing refers to.",
}
"""The groups besides the schemes, in the order of the help."""


class Command(click.Command):
    """A command that builds a value of each of its models from the options, and passes them to its body."""

    def __init__(self, name: str, body: Callable[..., Any], models: tuple[type[BaseModel], ...], help: str) -> None:
        """Make the options of the models' fields; some are only in the long help if there are many."""
        options = parameters(models)
        params: list[click.Parameter] = [*options]
        if not all(option.common for option in options):
            every = "Show all options and exit."
            params.append(
                click.Option(
                    ["--help-all"], is_flag=True, expose_value=False, is_eager=True, help=every, callback=_show_all
                )
            )
        super().__init__(name, params=params, help=help)
        self.body, self.models = body, models

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments as click does, but refuse arguments that click would silently ignore."""
        given, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for option in order:
            times = order.count(option)
            if times > 1 and isinstance(option, click.Option) and not option.multiple and not option.is_flag:
                raise UsageError(f"{option.opts[-1]} was given {times} times; expected once")
            if getattr(option, "is_path", False) and given.get(option.name or "") == "":
                raise UsageError(f"{option.opts[0]} is empty; expected a path")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # Any: an exit code, or None
        """Run the body."""
        return self.body(*(build(model, ctx.params) for model in self.models))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by heading; the short help has brief texts, and no rare options."""
        short = not ctx.meta.get(EVERY)
        options = [option for option in self.get_params(ctx) if not short or getattr(option, "common", True)]
        rare = len(self.get_params(ctx)) - len(options)
        sections: dict[str, list[Row]] = {OPTIONS: []}
        for option in options:
            heading, row = getattr(option, "heading", ""), option.get_help_record(ctx)
            if row is not None and rare:
                heading, row = "" if heading in RARE else heading, (row[0], getattr(option, "clause", row[1]))
            if row is not None:
                sections.setdefault(heading or OPTIONS, []).append(row)
        _write(formatter, sections)
        notes = [REPEAT] if any(getattr(option, "multiple", False) for option in options) else []
        notes += [f"{rare} more options: {ctx.command_path} --help-all"] if rare else []
        formatter.write_paragraph()
        for note in notes:
            formatter.write_text(note)


def typed() -> tuple[str, ...]:
    """Return the words of the running command line, without the program."""
    context = click.get_current_context(silent=True)
    words: tuple[str, ...] = (context and context.find_root().obj) or ()
    return words


class Commands(click.Group):
    """A group of commands."""

    noun = "command"

    def __init__(self, name: str, help: str = "", **options: Untyped) -> None:
        """Make a group without commands."""
        super().__init__(name, help=help or GROUPS.get(name), no_args_is_help=False, **options)

    def add(self, *models: type[BaseModel]) -> Callable[[Body], Body]:
        """Return a decorator that adds a function as a command; its options are the fields of the models."""

        def added(body: Body) -> Body:
            about = (inspect.getdoc(body) or "").partition("\n\n")[0]
            self.add_command(Command(body.__name__.strip("_"), body, models, " ".join(about.split())))
            return body

        return added

    def rows(self) -> dict[str, list[Row]]:
        """Return the commands and their summaries, by heading."""
        return {"Commands": [(name, command.help or "") for name, command in self.commands.items()]}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help; no command is loaded for it."""
        return [*self.commands]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. Dashes and underscores in its name are equivalent."""
        name, names = args[0].replace("_", "-"), self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            raise UsageError(nearest(self.noun, args[0], names))
        return super().resolve_command(ctx, [name, *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by heading."""
        _write(formatter, self.rows())


class SchemeCommands(Commands):
    """A group with a command for each scheme; a scheme of another package is loaded only when it is called."""

    noun = "scheme"

    def __init__(self, name: str, help: str, body: Callable[..., Any], *models: type[BaseModel]) -> None:
        """Make the group; `body` takes a scheme's name, its settings, and a value of each of the models."""
        super().__init__(name, help)
        self.body, self.models = body, models

    def rows(self) -> dict[str, list[Row]]:
        """Return the schemes."""
        return {"Schemes": scheme_rows()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the schemes' commands."""
        return scheme_names()

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of a scheme."""
        found = scheme(name.replace("-", "_"))
        return Command(found.command, partial(self.body, found.name), (found.settings, *self.models), found.summary)


def scheme_names() -> list[str]:
    """Return the schemes' commands; no scheme is loaded."""
    return [name.replace("_", "-") for name in SCHEMES.names()]


def scheme_rows() -> list[Row]:
    """Return the schemes' commands and summaries; of a scheme of another package the package's summary."""
    about = (scheme(name).summary if name in NAMES else SCHEMES.summary(name) for name in SCHEMES)
    return list(zip(scheme_names(), about, strict=True))


def _show_all(ctx: click.Context, option: click.Parameter, chosen: bool) -> None:
    if chosen:
        ctx.meta[EVERY] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _write(formatter: click.HelpFormatter, sections: dict[str, list[Row]]) -> None:
    for heading, rows in sections.items():
        with formatter.section(heading):
            formatter.write_dl(rows, col_max=22)


class _OnStderr(logging.Handler):
    """A handler for the current stderr: a live view replaces stderr by an object that prints above the view."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one harmless line, with the seconds since the program began."""
        line = f"[{record.relativeCreated / 1000:.1f} s] {record.name}: {record.getMessage()}"
        say(one_line(line), error=True)


def log_to_stderr() -> None:
    """Write all log lines of our modules to stderr from now on: what is loaded, read and saved."""
    logger = logging.getLogger("sottovoce")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, _OnStderr) for handler in logger.handlers):
        logger.addHandler(_OnStderr())


@contextmanager
def doing(step: str, console: Console, *, animated: bool) -> Iterator[Callable[[str], object]]:
    """Show a slow step: at once if `animated`, otherwise on stderr if it takes longer than `LATE`.

    Yield a function that shows the next step.
    """
    if animated:
        spinner = "line" if console.options.ascii_only else "dots"
        with console.status(one_line(step), spinner=spinner) as status:
            yield lambda line: status.update(one_line(line))
        return
    waiting: list[Timer] = []

    def begin(line: str) -> None:
        for timer in waiting:
            timer.cancel()
        waiting[:] = [Timer(LATE, partial(say, one_line(line), error=True))]
        waiting[0].daemon = True
        waiting[0].start()

    try:
        begin(step)
        yield begin
    finally:
        waiting[0].cancel()
