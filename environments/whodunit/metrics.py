"""How a game of WhoDunit went, in figures: means over games are the paper's success, precision and length."""

from __future__ import annotations

from typing import NamedTuple


class Ended(NamedTuple):
    """How one game ended."""

    right: bool
    awarded: bool
    turns: int
    """All of them, those before a reset too; one that a reset took the place of counts as one."""
    cancelled: bool = False
    resets: int = 0


def measures(game: Ended) -> dict[str, int | float | None]:
    """By name; a cancelled game is a failure.

    Success is 1 for a right award and 0 without one; precision is None for a game without an award, so that it is
    of the games with one.
    """
    return {
        "success": float(game.right),
        "precision": float(game.right) if game.awarded else None,
        "turns": game.turns,
        "cancelled": float(game.cancelled),
        "resets": game.resets,
    }
