"""The transcript of a run for a terminal: agents side by side, a row of panels a round, the decision.

Texts of models are data: they reach rich as plain `Text`, never as markup, with control characters
escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from sottovoce.channels.message import Message
from sottovoce.evaluation.runs.record import Run
from sottovoce.evaluation.views import describe, parts, votes
from sottovoce.evaluation.views.opening import facts, manner, setting
from sottovoce.evaluation.views.parts import Part
from sottovoce.evaluation.views.printable import harmless, one_line

NARROWEST = 36  # columns of a panel
SHADES = (
    ("sure", 0.2, ""),
    ("fairly sure", 0.7, "black on #fff2b3"),
    ("unsure", 1.4, "black on #ffd166"),
    ("very unsure", float("inf"), "black on #f4893b"),
)
"""Uncertainty in words, up to how many nats, and how it is shaded."""


def print_run(console: Console, run: Run) -> None:
    """The whole transcript of a run that has ended."""
    console.print(opening(run))
    for each in parts.of_run(run):
        console.print(part(console, each))
    console.print(ending(console, run))


def opening(run: Run) -> RenderableType:
    """What is discussed, by whom, and what is to be known before."""
    held = [line for line in (setting(run), manner(run)) if line]
    known = [*([f"({run.origin})"] if run.origin else []), *facts(run)]
    notes = [Text(f"note: {one_line(note)}", style="yellow") for note in run.notes]
    question = Text(harmless(run.question["question"]), style="bold")
    return Group(*_dim(held), question, *_dim(known), *notes)


def part(console: Console, shown: Part, panels: Sequence[Panel] | None = None) -> RenderableType:
    """Messages side by side under their heading, and the lines after them; `panels` where not all are finished."""
    lines: list[RenderableType] = [headline(shown.heading)]
    if shown.messages:
        lines.append(side_by_side(console, panels or [panel(each) for each in shown.messages]))
    return Group(*lines, *map(Text, shown.lines))


def headline(heading: str) -> Rule:
    """A line that begins a part."""
    return Rule(heading, align="left", style="dim")


def side_by_side(console: Console, panels: Sequence[Panel]) -> RenderableType:
    """Panels of one height in as many columns as the terminal has room for; one below the other elsewhere."""
    width = width_of(console, len(panels))
    shown = [copy(each) for each in panels]
    if width < console.width:
        options = console.options.update(width=width)
        height = max(len(console.render_lines(each, options)) for each in panels)
        for each in shown:
            each.height = height
    return Columns(shown, width=width, padding=0)


def width_of(console: Console, panels: int) -> int:
    """How wide each of so many panels is."""
    room = console.width // NARROWEST if console.is_terminal else 1
    return console.width // max(1, min(panels, room))


def panel(message: Message) -> Panel:
    """A finished message, shaded by uncertainty, over what it carried."""
    return titled(describe.speaker(message), shaded(message), describe.footer(message))


def titled(title: str, text: Text, footer: str = "") -> Panel:
    """A text under a speaker's name."""
    body = Group(text, *_dim([footer])) if footer else text
    return Panel(body, title=Text(title), title_align="left", box=box.ROUNDED, border_style="dim")


def shaded(message: Message) -> Text:
    """A message's text after its given beginning, each token on the colour of its uncertainty."""
    text = Text(overflow="fold").append(harmless(message.begun), style="dim")
    for piece, entropy in describe.shades(message):
        text.append(harmless(piece), style=shade(entropy))
    return text


def shade(entropy: float | None) -> str:
    """The style of a token."""
    return "" if entropy is None else next((style for _, limit, style in SHADES if entropy < limit), SHADES[-1][-1])


def legend() -> Text:
    """What the shades mean."""
    limits = ["", *(f" {limit:g}+" for _, limit, _ in SHADES[:-1])]
    words = [Text(word + limit, style=style or "dim") for (word, _, style), limit in zip(SHADES, limits, strict=True)]
    return Text.assemble(("shaded by entropy (nats): ", "dim"), Text(", ").join(words))


def ending(console: Console, run: Run) -> RenderableType:
    """The decision and what it took, with a legend where tokens were shaded."""
    lines: list[RenderableType] = [headline("Decision"), decision(run), *_dim([describe.cost(run)])]
    if console.color_system is not None and not console.no_color and any(message.payload for message in run.messages):
        lines.append(legend())
    return Group(*lines)


def decision(run: Run) -> RenderableType:
    """The decision, why, and each agent's vote; or how the run ended without one."""
    made, verdict = run.decision, votes.verdict(run)
    if made is None:
        return Text(describe.undecided(run))
    lines = [Text.assemble((votes.answer(made), "bold"), f"  {votes.why(made)}"), *_dim(votes.support(run, made))]
    if verdict:
        lines.append(Text(verdict, style="green" if made["score"] == 1 else "red"))
    return Group(*lines)


def _dim(lines: Sequence[str]) -> list[Text]:
    return [Text(line, style="dim") for line in lines]
