"""The transcript of a run as Markdown. Texts of models are in fences that they cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sottovoce.channels.message import Message
from sottovoce.core.text import harmless, one_line
from sottovoce.report import blocks, describe
from sottovoce.report.blocks import Block, Line
from sottovoce.runs.record import DiscussionRecord

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")  # characters with a meaning in Markdown


def markdown(run: DiscussionRecord) -> str:
    """Return the whole transcript."""
    return "".join(block for shown in blocks.transcript(run) for block in _lines_of(shown)).lstrip() + "\n"


def fenced(text: str) -> str:
    """Return a text between fences longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{harmless(text)}\n{fence}"


def escaped(text: str) -> str:
    """Return a text on one line, escaped so that Markdown shows it as it is."""
    return SPECIAL.sub(r"\\\1", one_line(text))


def _lines_of(block: Block) -> Iterator[str]:
    if block.heading:
        yield f"\n\n## {block.heading}"
    for message in block.messages:
        yield f"\n\n{_message(message)}"
    listed = False
    for line in block.lines:
        apart = line.style in ("title", "question", "figure")
        yield ("\n" if listed and not apart else "\n\n") + _line(line)
        listed = not apart


def _message(message: Message) -> str:
    speaker, footer = escaped(describe.speaker(message)), escaped(describe.footer(message))
    return f"### {speaker}\n\n{fenced(message.full_text)}\n\n{footer}"


def _line(line: Line) -> str:
    """Return an item of a list; an indented one belongs to the item before it."""
    if line.style in ("question", "figure"):
        return fenced(line.text)
    if line.style == "title":
        return f"# {escaped(line.text)}"
    text = line.text.lstrip()
    margin, answer = " " * (len(line.text) - len(text)), f"**{escaped(line.answer)}** " if line.answer else ""
    return f"{margin}- {answer}{escaped(text)}"
