"""The transcript of a run for a terminal: agents side by side, a row of panels a round, the decision.

Texts of models are data: they reach rich as plain `Text`, never as markup, with control characters
escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from sottovoce.channels.message import Message
from sottovoce.evaluation import describe, parts, votes
from sottovoce.evaluation import opening as words
from sottovoce.evaluation.parts import Part
from sottovoce.evaluation.printable import one_line, printable
from sottovoce.evaluation.record import Run

NARROWEST = 36  # columns of a panel
LEVELS = ((0.2, ""), (0.7, "black on #fff2b3"), (1.4, "black on #ffd166"), (float("inf"), "black on #f4893b"))
"""Uncertainty in nats up to a level, and how it is shaded."""


def print_run(console: Console, run: Run) -> None:
    """The whole transcript of a run that has ended."""
    console.print(opening(run))
    for each in parts.of_run(run):
        console.print(part(console, each))
    console.print(ending(console, run))


def opening(run: Run) -> RenderableType:
    """What is discussed, by whom, and what is to be known before."""
    lines = [Text(words.setting(run), style="dim"), Text(printable(run.question["question"]), style="bold")]
    if manner := words.manner(run):
        lines.insert(1, Text(manner, style="dim"))
    if run.origin:
        lines.append(Text(f"({run.origin})", style="dim"))
    lines += [Text(line, style="dim") for line in words.facts(run)]
    lines += [Text(f"note: {one_line(note)}", style="yellow") for note in run.notes]
    return Group(*lines)


def part(console: Console, shown: Part, panels: Sequence[Panel] | None = None) -> RenderableType:
    """Messages side by side under their heading, and the lines after them; `panels` where not all are finished."""
    lines: list[RenderableType] = [headline(shown.heading)]
    if shown.messages:
        lines.append(side_by_side(console, panels or [panel(each) for each in shown.messages]))
    return Group(*lines, *(Text(line) for line in shown.lines))


def headline(heading: str) -> Rule:
    """A line that begins a part."""
    return Rule(heading, align="left", style="dim")


def side_by_side(console: Console, panels: Sequence[Panel]) -> RenderableType:
    """Panels in as many columns as the terminal has room for; one below the other where it is no terminal."""
    columns, width = layout(console, len(panels))
    grid = Table.grid()
    for _ in range(columns):
        grid.add_column(width=width, overflow="fold")
    for at in range(0, len(panels), columns):
        together = panels[at : at + columns]
        height = max(len(console.render_lines(each, console.options.update(width=width))) for each in together)
        for each in together:
            each.height = height
        grid.add_row(*together)
    return grid


def layout(console: Console, panels: int) -> tuple[int, int]:
    """How many columns there are for so many panels, and how wide each is."""
    room = console.width // NARROWEST if console.is_terminal else 1
    columns = max(1, min(panels, room))
    return columns, console.width // columns


def panel(message: Message) -> Panel:
    """A finished message, shaded by uncertainty, over what it carried."""
    return framed(describe.speaker(message), shaded(message), describe.footer(message))


def framed(title: str, text: Text, footer: str) -> Panel:
    """A text under a speaker's name."""
    body = Group(text, Text(footer, style="dim")) if footer else text
    return Panel(body, title=Text(title), title_align="left", box=box.ROUNDED, border_style="dim")


def shaded(message: Message) -> Text:
    """A message's text, each token on the colour of its uncertainty."""
    text = Text(overflow="fold")
    for piece, entropy in describe.shades(message):
        text.append(printable(piece), style=shade(entropy))
    return text


def shade(entropy: float | None) -> str:
    """The style of a token."""
    return (
        "" if entropy is None else next(style for limit, style in LEVELS if entropy < limit or limit == LEVELS[-1][0])
    )


def legend() -> Text:
    """What the shades mean."""
    text = Text.assemble(("shaded by entropy (nats): ", "dim"))
    lower = ""
    for word, (limit, style) in zip(("sure", "fairly sure", "unsure", "very unsure"), LEVELS, strict=True):
        text.append(", " if lower else "", style="dim").append(f"{word}{lower}", style=style or "dim")
        lower = f" {limit:g}+"
    return text


def ending(console: Console, run: Run) -> RenderableType:
    """The decision and what it took, with a legend where tokens were shaded."""
    lines: list[RenderableType] = [headline("Decision"), decision(run), Text(describe.cost(run), style="dim")]
    if console.color_system is not None and not console.no_color and any(message.payload for message in run.messages):
        lines.append(legend())
    return Group(*lines)


def decision(run: Run) -> RenderableType:
    """The decision, why, and each agent's vote; or how the run ended without one."""
    made, verdict = run.decision, votes.verdict(run)
    if made is None:
        return Text(f"none: the run is {run.status}" + (f" ({one_line(run.error)})" if run.error else ""))
    lines = [Text.assemble((votes.answer(made), "bold"), f"  {votes.why(made)}")]
    lines += [Text(line, style="dim") for line in votes.support(run, made)]
    if verdict:
        lines.append(Text(verdict, style="green" if made["score"] == 1 else "red"))
    return Group(*lines)
