"""Functions that return a printed transcript, and what a live view leaves on a terminal."""

from __future__ import annotations

import re
from io import StringIO

from rich.console import Console

from sottovoce.report import transcript
from sottovoce.runs.record import DiscussionRecord

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


def printed(run: DiscussionRecord, width: int = 60, *, terminal: bool = False) -> str:
    file = StringIO()
    console = Console(
        file=file, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None,
        markup=False, emoji=False, highlight=False,
    )  # fmt: skip
    transcript.print_run(console, run)
    return file.getvalue()


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
