"""Metrics of a game of WhoDunit, whose means over games are the paper's success, precision and length."""

from __future__ import annotations

from typing import NamedTuple


class Ended(NamedTuple):
    """The end of one game."""

    right: bool
    awarded: bool
    turns: int
    """Number of all turns, including those before a reset; a turn that a reset replaced counts as one."""
    cancelled: bool = False
    resets: int = 0


def measures(game: Ended) -> dict[str, int | float | None]:
    """Return the metrics by name; a cancelled game is a failure.

    Success is 1 for a right award, else 0. Precision is None for a game without an award, so that its mean is over the
    games with one.
    """
    return {
        "success": float(game.right),
        "precision": float(game.right) if game.awarded else None,
        "turns": game.turns,
        "cancelled": float(game.cancelled),
        "resets": game.resets,
    }
