"""The help of a command, in panels that never split a word, at any width of the terminal.

Typer (0.29) puts names and values into separate columns and cuts long values to fit. Here a name with values that
does not fit gets its own line, as in most programs' manuals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from sottovoce.report.output import console_of

OPTIONS = "Options"
COMMANDS = "Commands"
WIDEST = 1 / 3
"""The largest share of the width that the column of names may take."""
BORDERS = 4
GAP = 2
TYPES = {"str": "TEXT", "list[str]": "", "int": "N", "int range": "N", "path": "PATH"}
"""Our words for values, by typer's."""
TYPED = re.compile(r" <([^>]+)>$")


class Row(NamedTuple):
    """An option or command with its values, and its help text."""

    name: str
    told: str


def show_help(command: Any, context: Any) -> None:  # Any: typer's own types are private
    """Print a command's usage, description, options and subcommands."""
    console = console_of()
    usage = f"Usage: {context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    _print(console, [usage, *_paragraphs(command.help)])
    options = _options(command, context)
    for heading, rows in options.items():
        console.print(_panel(console, heading, rows))
    below = _below(command)
    for heading, rows in below.items():
        console.print(_panel(console, heading, rows, max(len(row.name) for each in below.values() for row in each)))
    _print(console, _paragraphs(command.epilog))


def _options(command: Any, context: Any) -> dict[str, list[Row]]:  # Any: see show_help
    """Return arguments and options by heading; arguments come first, and `--help` last, under the first heading."""
    found: dict[str, list[Row]] = {OPTIONS: []}
    for each in command.get_params(context):
        if record := each.get_help_record(context):
            name, told = record
            found.setdefault(each.rich_help_panel or OPTIONS, []).append(Row(TYPED.sub(_plainly, name), told))
    return found


def _plainly(found: re.Match[str]) -> str:
    word = TYPES.get(found[1], found[1])
    return f" {word}" if word and found.string.startswith("-") else ""  # an argument's name already says what it takes


def _below(command: Any) -> dict[str, list[Row]]:  # Any: see show_help
    """Return the subcommands by heading."""
    found: dict[str, list[Row]] = {}
    for name, each in getattr(command, "commands", {}).items():
        found.setdefault(each.rich_help_panel or COMMANDS, []).append(Row(name, each.help or ""))
    return found


def _panel(console: Console, heading: str, rows: Sequence[Row], column: int = 0) -> Panel:
    """Return a panel of rows; the names take `column` characters, or as many as they need."""
    room = console.width - BORDERS
    most = int(room * WIDEST)
    column = column or max((len(row.name) for row in rows if len(row.name) <= most), default=most)
    lines = [line for row in rows for line in _lines(row, column, room)]
    return Panel(Group(*lines), title=heading, title_align="left", border_style="dim")


def _lines(row: Row, column: int, room: int) -> Iterator[Text]:
    """Yield the lines of a row: name and text side by side, or the text below if a name or a word is too long."""
    indent = min(column + GAP, room - max(map(len, row.told.split()), default=0))
    texts = _wrapped(row.told, room - indent)
    if len(row.name) + GAP <= indent:
        yield Text(row.name.ljust(indent), style="bold cyan") + Text(texts.pop(0) if texts else "", "")
    else:
        yield from (Text(line, style="bold cyan") for line in _between_choices(row.name, room))
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


def _paragraphs(text: str | None) -> list[str]:
    return [each for each in (text or "").split("\n\n") if each]
