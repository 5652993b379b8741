"""The transcript of a run for a terminal, as rows of panels with agents side by side, and as Markdown.

Texts of models are data: they reach rich as plain `Text`, never as markup, with control characters escaped. In
Markdown they are in fences that they cannot close.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from math import isfinite

from rich import box
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from sottovoce.channels.message import Message
from sottovoce.core.text import harmless, one_line, steady
from sottovoce.report import blocks, describe
from sottovoce.report.blocks import Block, Line
from sottovoce.runs.record import DiscussionRecord

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")  # characters with a meaning in Markdown
NARROWEST = 36  # minimum columns of a panel
SHADES = {0.25: "black on #fff2b3", 0.5: "black on #ffd166", 0.75: "black on #f4893b"}
"""Styles of tokens, each from this part of their reply's highest entropy."""
SURE = 0.05
"""In nats; a reply whose highest entropy is below is not shaded."""
EMPTY = re.compile(r"\n(?:[^\S\n]*\n){4,}")
"""More empty lines in a row than a reply needs for its layout."""
STYLES = {"title": "dim", "question": "bold", "aside": "dim", "note": "yellow", "right": "green", "wrong": "red"}


def print_run(console: Console, run: DiscussionRecord, *, prompts: bool = False) -> None:
    """Print the whole transcript of a run that has ended; `prompts` adds the prompts."""
    for shown in (blocks.introduction(run), *blocks.rounds(run, prompts=prompts)):
        console.print(block(console, shown))
    console.print(conclusion(console, run))


def block(console: Console, shown: Block, panels: Sequence[Panel] | None = None) -> RenderableType:
    """Return messages side by side under their heading, then lines; without `panels`, equal messages are folded."""
    head = [Rule(shown.heading, align="left", style="dim")] if shown.heading else []
    if panels is None:
        shown = folded(shown)
        panels = [panel(message, colors=colored(console)) for message in shown.messages]
    row = _messages(console, shown, panels) if shown.messages else []
    return Group(*head, *row, *lines(shown.lines))


def folded(shown: Block) -> Block:
    """Return a block whose messages with an equal panel are one message and a line; with prompts nothing is folded."""
    equal: dict[tuple[str | None, ...], list[Message]] = {}
    for message in () if shown.prompts else shown.messages:
        panel = (message.begun, message.text, message.thoughts, message.public, describe.footer(message))
        equal.setdefault(panel, []).append(message)
    repeated = [[*map(describe.speaker, messages)] for messages in equal.values() if len(messages) > 1]
    if not repeated:
        return shown
    same = (Line(f"{', '.join(others)}: the same as {first}", "aside") for first, *others in repeated)
    return replace(shown, messages=tuple(first for first, *_ in equal.values()), lines=(*same, *shown.lines))


def _messages(console: Console, shown: Block, panels: Sequence[Panel]) -> list[RenderableType]:
    """Return messages side by side; if prompts are shown, one below the other, each under its prompt."""
    if shown.prompts:
        pairs = zip(shown.messages, panels, strict=True)
        return [Group(*lines(shown.prompts.get(message.place, ())), panel) for message, panel in pairs]
    width, equal = width_of(console, len(panels)), list(map(copy, panels))
    if width < console.width:
        options = console.options.update(width=width)
        height = max(len(console.render_lines(each, options)) for each in panels)
        for each in equal:
            each.height = height
    return [Columns(equal, width=width, padding=0)]


def lines(shown: Sequence[Line]) -> list[Text]:
    """Return lines as they are printed."""
    answers = [(f"{line.answer}  " if line.answer else "", "bold") for line in shown]
    texts = [(steady(line.text), STYLES.get(line.style, "")) for line in shown]
    return [Text.assemble(*parts) for parts in zip(answers, texts, strict=True)]


def conclusion(console: Console, run: DiscussionRecord) -> RenderableType:
    """Return the decision and its cost, with a legend if tokens were shaded."""
    ended = block(console, blocks.conclusion(run))
    if not colored(console) or not any(message.payload for message in run.messages):
        return ended
    parts = Text(" ").join(Text(f"{part:.0%}", style) for part, style in SHADES.items())
    return Group(ended, Text.assemble(("shaded by entropy: from ", "dim"), parts, (" of a reply's highest", "dim")))


def colored(console: Console) -> bool:
    """Return whether a console shows shades."""
    return console.color_system is not None and not console.no_color


def width_of(console: Console, panels: int) -> int:
    """Return the width of each of several panels."""
    room = console.width // NARROWEST if console.is_terminal else 1
    return console.width // max(1, min(panels, room))


def panel(message: Message, *, colors: bool = True) -> Panel:
    """Return a finished message, shaded by uncertainty, above its footer with the scale of its shades."""
    pieces = [*describe.shades(message)]
    limits, footer = scale(pieces) if colors else [], Text(describe.footer(message), style="dim")
    if limits:
        *begins, most = map("{:.2g}".format, limits)
        marks = Text(" ").join(map(Text, begins, SHADES.values()))
        footer = Text.assemble(footer, (" · shaded from ", "dim"), marks, (f" to {most} nats", "dim"))
    return titled(describe.speaker(message), shaded(message.begun, pieces), footer, describe.thoughts(message))


def titled(title: str, text: Text, footer: Text | None = None, folded: str = "") -> Panel:
    """Return a text in a panel under a title, with a line of folded thoughts above it."""
    above, below = [Text(folded, style="dim italic")] if folded else [], [footer] if footer else []
    body = Group(*above, text, *below) if above or below else text
    return Panel(body, title=Text(title), title_align="left", box=box.ROUNDED, border_style="dim")


Pieces = Sequence[tuple[str, float | None]]


def scale(pieces: Pieces) -> list[float]:
    """Return where the shades of a reply begin and where they end, in nats; [] for a sure one."""
    most = max((entropy for _, entropy in pieces if entropy is not None and isfinite(entropy)), default=0.0)
    return [part * most for part in (*SHADES, 1)] if most >= SURE else []


def shaded(prefill: str, pieces: Pieces) -> Text:
    """Return a text after its prefill, each token on the color of its uncertainty; unknown ones are not shaded."""
    text, limits = Text(overflow="fold").append(steady(prefill), style="dim"), scale(pieces)[:-1]
    for piece, entropy in pieces:
        above = sum(limit <= entropy for limit in limits) if entropy is not None else 0
        text.append(steady(piece), style=["", *SHADES.values()][above])
    return compact(text)


def compact(text: Text) -> Text:
    """Return a text with a mark in place of many empty lines; its shades stay."""
    shown, at = Text(overflow="fold"), 0
    for gap in EMPTY.finditer(text.plain):
        shown.append_text(text[at : gap.start()])
        shown.append(f"\n({gap[0].count(chr(10)) - 1} empty lines)\n", style="dim")
        at = gap.end()
    return shown.append_text(text[at:])


def markdown(run: DiscussionRecord) -> str:
    """Return the whole transcript."""
    return "".join(block for shown in blocks.transcript(run) for block in _markdown_block(shown)).lstrip() + "\n"


def fenced(text: str) -> str:
    """Return a text between fences longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{harmless(text)}\n{fence}"


def escaped(text: str) -> str:
    """Return a text on one line, escaped so that Markdown shows it as it is."""
    return SPECIAL.sub(r"\\\1", one_line(text))


def _markdown_block(block: Block) -> Iterator[str]:
    if block.heading:
        yield f"\n\n## {block.heading}"
    for message in block.messages:
        speaker, footer = escaped(describe.speaker(message)), escaped(describe.footer(message))
        thoughts = f"Thoughts:\n\n{fenced(message.thoughts.strip())}\n\n" if message.thoughts else ""
        yield f"\n\n### {speaker}\n\n{thoughts}{fenced(message.full_text or describe.NO_WORDS)}\n\n{footer}"
    listed = False
    for line in block.lines:
        apart = line.style in ("title", "question")
        yield ("\n" if listed and not apart else "\n\n") + _markdown_line(line)
        listed = not apart


def _markdown_line(line: Line) -> str:
    """Return an item of a list; an indented one belongs to the item before it."""
    if line.style == "question":
        return fenced(line.text)
    if line.style == "title":
        return f"# {escaped(line.text)}"
    text = line.text.lstrip()
    margin, answer = " " * (len(line.text) - len(text)), f"**{escaped(line.answer)}** " if line.answer else ""
    return f"{margin}- {answer}{escaped(text)}"
