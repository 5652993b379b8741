"""The help of a command, in panels that never split a word, at any width of the terminal.

A name with values that does not fit beside its text gets its own line, as in most programs' manuals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import NamedTuple, Protocol, runtime_checkable

import click
from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from sottovoce.cli.options import RARE, Argument, Option
from sottovoce.report.output import console_of

OPTIONS = "Options"
WIDEST = 1 / 3
"""The largest share of the width that the column of names may take."""
BORDERS = 4
GAP = 2


class Row(NamedTuple):
    """An option or command with its values, and its help text."""

    name: str
    text: str


def help_text(command: click.Command, ctx: click.Context, *, every: bool = False) -> str:
    """Return a command's usage, description, options and subcommands; the rare options only if `every` is True."""
    console = console_of()
    usage = f"Usage: {ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}"
    panels, rare = _options(command, ctx, every)
    below = command.rows(ctx) if isinstance(command, Listing) else {}
    column = max((len(row.name) for rows in below.values() for row in rows), default=0)
    more = f"{rare} more options: {ctx.command_path} --help-all" if rare else ""
    with console.capture() as capture:
        _print(console, [usage, *(command.help or "").split("\n\n")])
        for heading, rows in panels.items():
            console.print(_panel(console, heading, rows))
        for heading, rows in below.items():
            console.print(_panel(console, heading, rows, column))
        _print(console, filter(None, [command.epilog, more]))
    return capture.get().rstrip("\n")


@runtime_checkable
class Listing(Protocol):
    """A group of commands."""

    def rows(self, ctx: click.Context) -> dict[str, list[Row]]:
        """Return the commands by heading."""


def _options(command: click.Command, ctx: click.Context, every: bool) -> tuple[dict[str, list[Row]], int]:
    """Return arguments and options by heading, and the number of rare ones that are left out.

    If some are left out, the others have brief texts, and stand together except those of the scheme.
    """
    panels: dict[str, list[Row]] = {OPTIONS: []}
    options = command.get_params(ctx)
    shown = [option for option in options if every or not isinstance(option, Option) or option.common]
    rare = len(options) - len(shown)
    for option in shown:
        name = " ".join(filter(None, [", ".join(option.opts), option.metavar]))
        text, heading = getattr(option, "help", None) or "", OPTIONS
        if isinstance(option, Argument):
            name = option.metavar or ""
        elif isinstance(option, Option):
            text = option.brief if rare else text
            heading = OPTIONS if rare and option.heading in RARE else option.heading or OPTIONS
        panels.setdefault(heading, []).append(Row(name, text))
    return panels, rare


def _panel(console: Console, heading: str, rows: Sequence[Row], column: int = 0) -> Panel:
    """Return a panel of rows; the names take `column` characters, or as many as they need."""
    width = console.width - BORDERS
    most = int(width * WIDEST)
    column = column or max((len(row.name) for row in rows if len(row.name) <= most), default=most)
    lines = [line for row in rows for line in _lines(row, column, width)]
    return Panel(Group(*lines), title=heading, title_align="left", border_style="dim")


def _lines(row: Row, column: int, width: int) -> Iterator[Text]:
    """Yield the lines of a row: name and text side by side, or the text below if a name or a word is too long."""
    indent = min(column + GAP, width - max(map(len, row.text.split()), default=0))
    texts = _wrapped(row.text, width - indent)
    if len(row.name) + GAP <= indent:
        yield Text(row.name.ljust(indent), style="bold cyan") + Text(texts.pop(0) if texts else "", "")
    else:
        yield from (Text(line, style="bold cyan") for line in _between_choices(row.name, width))
    yield from (Text(" " * indent + line) for line in texts)


def _between_choices(name: str, width: int) -> list[str]:
    """Return a long name in lines that break between its choices."""
    lines = [""]
    for piece in re.split(r"(?<=\|)", name):
        if len(lines[-1] + piece) > width:
            lines.append("    ")
        lines[-1] += piece
    return lines


def _print(console: Console, paragraphs: Iterable[str]) -> None:
    """Print paragraphs, with an empty line after each."""
    for paragraph in paragraphs:
        console.print(*(f" {line}" for line in _wrapped(paragraph, console.width - 2)), "", sep="\n")


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)
