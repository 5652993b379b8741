"""Functions that return a printed transcript, and what a live view leaves on a terminal."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

from rich.console import Console

from sottovoce.cli.live import LiveTranscript
from sottovoce.report import transcript
from sottovoce.runs.record import DiscussionRecord

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


def console_of(width: int = 60, height: int = 30, *, terminal: bool = False, **more: Any) -> Console:
    """A console that writes into memory, as a terminal or as a pipe."""
    size, plain = {"width": width, "height": height}, {"markup": False, "emoji": False, "highlight": False}
    return Console(file=StringIO(), force_terminal=terminal, **{**size, **plain, **more})


def text_of(console: Console) -> str:
    """All that was written on such a console."""
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def in_motion(live: LiveTranscript, console: Console) -> str:
    """What a live view shows now."""
    with console.capture() as capture:
        console.print(live._now())
    return capture.get()


def printed(run: DiscussionRecord, width: int = 60, *, terminal: bool = False) -> str:
    console = console_of(width, terminal=terminal, color_system="truecolor" if terminal else None)
    transcript.print_run(console, run)
    return text_of(console)


def left_on_screen(written: str) -> list[str]:
    """The lines of a terminal that knows what rich's live views ask of it: move up, erase a line, start over."""
    lines, row, column = [""], 0, 0
    for number, command, start, down, text in SEQUENCE.findall(written):
        if start:
            column = 0
        elif down:
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif command == "A":
            row = max(row - int(number or 1), 0)
        elif command == "K":
            lines[row] = ""
        elif text:
            lines[row] = lines[row].ljust(column)[:column] + text + lines[row][column + len(text) :]
            column += len(text)
    return "\n".join(line.rstrip() for line in lines).rstrip().splitlines()
