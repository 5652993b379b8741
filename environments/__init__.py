"""Worlds in which agents act: pure rules, without models or LangGraph. This file: splits, names of games, replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Split = Literal["train", "validation", "test"]
"""Splits of games: for fitting monitors, for choosing them, and for testing them on unseen games."""
SPLITS: tuple[Split, ...] = get_args(Split)
GAMES: Mapping[str, tuple[str, ...]] = {
    **{world: (world, *(f"{world}/{split}" for split in SPLITS)) for world in ("whodunit", "govsim")},
    "codegen": ("problems",),
}
"""The samples of the bundled schemes that play a world, by the names that --sample takes."""
STORED = ("whodunit", "govsim")
"""The bundled schemes that play games from files."""


def trimmed(text: str, start: int, end: int, before: str | None = None) -> tuple[int, int]:
    """Return a span without surrounding white space; at its start, only the characters of `before` if given."""
    inside = text[start:end]
    begin = start + len(inside) - len(inside.lstrip(before))
    return begin, max(begin, start + len(inside.rstrip()))
