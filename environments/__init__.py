"""Worlds in which agents act: pure rules, without models or LangGraph. Here: splits of games, game files, replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar, get_args

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.core.files import text_of

Played = TypeVar("Played")

Split = Literal["train", "validation", "test"]
"""Splits of games: for fitting monitors, for choosing them, and for testing them on unseen games."""
SPLITS: tuple[Split, ...] = get_args(Split)


def read_game_file(path: Path | str, game: Callable[[JSONValue], Played], noun: str = "game file") -> Played:
    """Read a game, or another noun, from a JSON file; `game` validates the content and returns the game.

    Raises:
        UsageError: the file cannot be read, or is not JSON or not a game; the message says what is wrong.
    """
    name = f"{noun} {str(path)!r}"
    try:
        content = json.loads(text_of(path))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error
    try:
        return game(content)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def trimmed(text: str, start: int, end: int, before: str | None = None) -> tuple[int, int]:
    """Return a span without surrounding white space; at its start, only the characters of `before` if given."""
    inside = text[start:end]
    begin = start + len(inside) - len(inside.lstrip(before))
    return begin, max(begin, start + len(inside.rstrip()))
