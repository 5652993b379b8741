"""A console for terminals of any encoding: characters that it lacks become escapes before lines are laid out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from sottovoce.core.text import ERRORS


class ReadableConsole(Console):
    """A console that escapes what the encoding lacks before lines are laid out; later, borders would be cut."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, after escaping texts."""
        encoding = (options or self.options).encoding
        if isinstance(renderable, Text) and not encoding.startswith("utf"):
            renderable = _encodable(renderable, encoding)
        return super().render(renderable, options)


def console_of() -> Console:
    """Return a console that prints texts of models as data, without markup, emoji names or highlighting."""
    return ReadableConsole(markup=False, emoji=False, highlight=False)


def moves(console: Console) -> bool:
    """Return whether output can be overwritten: on a terminal that is not a dumb one."""
    return console.is_terminal and not console.is_dumb_terminal


def _encodable(text: Text, encoding: str) -> Text:
    """Return a text that can be encoded; a changed one loses its shades, whose positions no longer fit."""
    plain = text.plain.encode(encoding, ERRORS).decode(encoding)
    if plain == text.plain:
        return text
    layout: dict[str, Any] = {name: getattr(text, name) for name in ("style", "justify", "overflow", "no_wrap", "end")}
    return Text(plain, **layout)  # Any: each as rich has it
