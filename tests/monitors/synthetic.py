"""A noisy player whose uncertainty foretells its errors: it draws each action from a distribution, the first is right.

One turn in ten is confused. A wrong action loses the game, which is told at its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from sottovoce.core.any_types import JSONValue
from sottovoce.monitors.dataset import Games, Row, games_of
from sottovoce.monitors.features import statistics

ACTIONS = 5
CLEAR, CONFUSED = 7.0, 1.0
"""Logits of the right action above the others."""
Watch = Callable[[Mapping[str, float], int], bool]


class Player:
    """Plays games of six to twelve turns."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def turn(self) -> tuple[dict[str, float], bool]:
        """How unsure it is, and whether its action is wrong."""
        right = CONFUSED if self.rng.random() < 0.1 else CLEAR
        logits = self.rng.normal(0, 0.5, ACTIONS) + right * (np.arange(ACTIONS) == 0)
        logprobs = logits - np.logaddexp.reduce(logits)
        return statistics(logprobs), bool(self.rng.random() > np.exp(logprobs[0]))

    def rows(self, game: int) -> list[Row]:
        """A game without a watch."""
        turns = [self.turn() for _ in range(self.rng.integers(6, 13))]
        failed = any(wrong for _, wrong in turns)
        return [
            Row(game=game, turn=at, role="player", features=found, failed=failed) for at, (found, _) in enumerate(turns)
        ]

    def watched(self, watch: Watch) -> tuple[bool, bool]:
        """A game that is begun again at its first trigger, before the action: whether it is won, and was reset."""
        reset, at, left, failed = False, 0, int(self.rng.integers(6, 13)), False
        while left:
            found, wrong = self.turn()
            if not reset and watch(found, at):
                reset, at, left, failed = True, 0, int(self.rng.integers(6, 13)), False
                continue
            at, left, failed = at + 1, left - 1, failed or wrong
        return not failed, reset


def rows(n: int, seed: int) -> list[Row]:
    """The turns of n games."""
    player = Player(seed)
    return [row for game in range(n) for row in player.rows(game)]


def games(n: int, seed: int) -> Games:
    """As monitors take them."""
    return games_of(rows(n, seed))


def written(path: Path, found: list[Row], **also: JSONValue) -> Path:
    """A file of rows."""
    lines = ({**row.model_dump(mode="json", exclude_none=row.features is not None), **also} for row in found)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
