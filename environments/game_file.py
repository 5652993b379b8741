"""Files of games: JSON that is held to the model of a world's game, with one line for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from sottovoce.errors import UsageError
from sottovoce.regular import text_of

Played = TypeVar("Played")

Split = Literal["train", "validation", "test"]
"""Of games: those that monitors learn from, are chosen by, and never saw."""
SPLITS: tuple[Split, ...] = get_args(Split)


def read_file(path: Path | str, game: Callable[[Any], Played]) -> Played:  # Any: JSON as it comes
    """The game of a file; `game` makes it from what the file holds, and refuses what is none.

    Raises:
        UsageError: it cannot be read, is no JSON, or no game: says what is missing or wrong.
    """
    name = f"game file {str(path)!r}"
    try:
        found = json.loads(text_of(path))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON: {error}") from error
    try:
        return game(found)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error
