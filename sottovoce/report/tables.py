"""Tables, the console that prints them, and the format of shares, intervals and p values in cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Drawing
from rich.text import Text

from sottovoce.core.text import ERRORS, figure, harmless

if TYPE_CHECKING:
    from rich.progress import Progress

    from sottovoce.analysis.statistics import Share

HANGING = re.compile(r"(?:- | *\S.* {2,})?")
"""The bullet of an item, or the columns of a line before its last one."""
BETWEEN = 3  # spaces between two columns of a table


class Table(NamedTuple):
    """Headings and rows; a cell is plain text, with names of runs between backticks."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    """Its name in a file for a paper, such as "runs"; it has no caption without one."""


def table(headings: str, rows: Iterable[Sequence[str]], name: str = "") -> Table:
    """Return a table; its headings are joined by bars."""
    return Table(headings.split(" | "), [*rows], name)


def markdown(*parts: Table | str) -> str:
    """Return texts and tables in Markdown, with an empty line between two; empty parts are left out."""
    return "\n\n".join(part if isinstance(part, str) else _markdown(part) for part in parts if part)


def _markdown(part: Table) -> str:
    lines = (" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in (part.headings, *part.rows))
    head, *below = (f"| {line} |" for line in lines)
    return "\n".join([head, f"|{'|'.join(['---'] * len(part.headings))}|", *below])


def show(*parts: Table | str, console: Console | None = None) -> None:
    """Print texts and tables: as Markdown into a pipe or a file; on a terminal drawn, and lines wrapped."""
    console = console or console_of()
    if not console.is_terminal:
        console.file.write(f"{harmless(markdown(*parts))}\n")
        return
    for number, part in enumerate([part for part in parts if part]):
        if number:
            console.print()
        if isinstance(part, str):
            for line in part.splitlines():
                console.print(wrapped(line, console.width), soft_wrap=True)
        else:
            _draw(part, console)


def wrapped(line: str, width: int) -> str:
    """Return a line wrapped between words; continuation lines are indented like the text of the item or column."""
    before = HANGING.match(line)
    indent = before.end() if before else 0
    hanging = " " * (indent if indent <= width * 2 / 3 else 0)
    return fill(line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _draw(part: Table, console: Console) -> None:
    """Print a table without a broken word where any layout fits.

    A table that is too wide is turned, rows into columns, or else split into a table of two columns for each row.
    """
    lines = [[cell.strip("`") for cell in cells] for cells in (part.headings, *part.rows)]
    turned = [[*cells] for cells in zip(*lines, strict=True)]
    fitting = next(([each] for each in (lines, turned) if _narrowest(each) <= console.width), None)
    by_row = ([*map(list, zip(lines[0], row, strict=True))] for row in lines[1:])
    for number, (headings, *rows) in enumerate(fitting or by_row):
        if number:
            console.print()
        drawing = Drawing(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for cells in zip(headings, *rows, strict=True):
            drawing.add_column(Text(cells[0]), overflow="fold", min_width=_longest_word(cells))
        for row in rows:
            drawing.add_row(*map(Text, row))
        console.print(drawing)


def _narrowest(lines: Sequence[Sequence[str]]) -> int:
    return sum(map(_longest_word, zip(*lines, strict=True))) + BETWEEN * (len(lines[0]) - 1)


def _longest_word(cells: Iterable[str]) -> int:
    return max((Text(word).cell_len for cell in cells for word in cell.split()), default=1)


def share_cells(share: Share | None) -> list[str]:
    """Return a share and its 95 % interval in percent; empty cells for None."""
    return ["", ""] if share is None else [percent(share.value), interval(share.low, share.high, percent)]


def interval(low: float | None, high: float | None, form: Callable[[float], str] = figure) -> str:
    """Return a 95 % interval; empty if it is unknown."""
    return "" if low is None or high is None else f"{form(low)} to {form(high)}"


def percent(part: float) -> str:
    """Return a part of 1 in percent."""
    return f"{part:.1%}"


class ReadableConsole(Console):
    """A console that escapes control characters, and characters that the encoding lacks, before lines are laid out.

    If they were escaped later, borders would be cut.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, after escaping texts."""
        if isinstance(renderable, str):
            renderable = self.render_str(renderable)
        if isinstance(renderable, Text):
            renderable = _encodable(renderable, (options or self.options).encoding)
        return super().render(renderable, options)


def console_of(*, stderr: bool = False) -> Console:
    """Return a console that prints texts of models as data, without markup, emoji names or highlighting."""
    return ReadableConsole(stderr=stderr, markup=False, emoji=False, highlight=False)


def moves(console: Console) -> bool:
    """Return whether output can be overwritten: on a terminal that is not a dumb one."""
    return console.is_terminal and not console.is_dumb_terminal


def bar(console: Console) -> Progress:
    """Return a bar with the time left that vanishes at its end; none is drawn where nothing moves."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # late: most commands draw none

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not moves(console))


def _encodable(text: Text, encoding: str) -> Text:
    """Return a harmless text that can be encoded; a changed text loses its shades, since positions differ."""
    plain = harmless(text.plain)
    if not encoding.startswith("utf"):
        plain = plain.encode(encoding, ERRORS).decode(encoding)
    if plain == text.plain:
        return text
    layout: dict[str, Any] = {name: getattr(text, name) for name in ("style", "justify", "overflow", "no_wrap", "end")}
    return Text(plain, **layout)  # Any: each as rich has it
