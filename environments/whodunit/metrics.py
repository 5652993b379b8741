"""How games of WhoDunit went, over many: success, precision and length."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple


class Ended(NamedTuple):
    """How one game ended."""

    right: bool
    awarded: bool
    turns: int
    """All of them, those before a reset too; one that a reset took the place of counts as one."""
    cancelled: bool = False


class Metrics(NamedTuple):
    """Of all games; a cancelled one is a failure."""

    games: int
    success: float
    precision: float | None
    """Of the games with an award; None where there was none."""
    length: float
    """Mean number of turns."""
    cancelled: int


def metrics(games: Sequence[Ended]) -> Metrics:
    """Over at least one game."""
    awards = [game for game in games if game.awarded]
    return Metrics(
        games=len(games),
        success=fmean(game.right for game in games),
        precision=fmean(game.right for game in awards) if awards else None,
        length=fmean(game.turns for game in games),
        cancelled=sum(game.cancelled for game in games),
    )
