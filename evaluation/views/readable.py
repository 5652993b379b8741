"""A console for whatever a terminal can show: escapes for letters that it lacks, laid out as long as they are."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

PLAIN = str.maketrans({"·": "-", "×": "x", "…": ".", "–": "-", "’": "'", "→": ">", "≥": ">", "≤": "<"})
"""What our own words have besides ASCII, in as many columns."""
ERRORS = "readable"


def _readable(error: UnicodeError) -> tuple[str | bytes, int]:
    """An error handler of codecs: a plain letter in the place of ours, an escape for any other."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(PLAIN)
    return lacking.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error(ERRORS, _readable)


class ReadableConsole(Console):
    """Escapes what the encoding lacks before lines are laid out: afterwards borders would be cut."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, but for texts."""
        encoding = (options or self.options).encoding
        if isinstance(renderable, Text) and not encoding.startswith("utf"):
            renderable = _encodable(renderable, encoding)
        return super().render(renderable, options)


def moves(console: Console) -> bool:
    """Whether what was written can be written over: on a terminal that is not a dumb one."""
    return console.is_terminal and not console.is_dumb_terminal


def _encodable(text: Text, encoding: str) -> Text:
    """A text in letters that there are; one that had to be changed has no shades, since they stood on others."""
    plain = text.plain.encode(encoding, ERRORS).decode(encoding)
    if plain == text.plain:
        return text
    kept: dict[str, Any] = {name: getattr(text, name) for name in ("style", "justify", "overflow", "no_wrap", "end")}
    return Text(plain, **kept)  # Any: each as rich has it
