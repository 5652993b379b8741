"""Means whose nearest tokens nobody has asked for yet."""

from __future__ import annotations

import torch

from sottovoce.models.huggingface.table import Table

MOST = 1024  # means that wait


class Pending:
    """Of all sequences on one network: as soon as one is asked for, all are looked up.

    A product with the whole table costs little more over many means than over one.
    """

    def __init__(self, table: Table) -> None:
        """`table` has the rows of the tokens."""
        self.table = table
        self._places: list[tuple[list[int], int]] = []
        self._means: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, ids: list[int], at: int, mean: torch.Tensor, guess: torch.Tensor) -> None:
        """Let a mean (E,) wait, whose token belongs at a place of `ids`; it is close to that of the guess ()."""
        self._places.append((ids, at))
        self._means.append((mean, guess))
        if len(self._means) >= MOST:
            self.look_up()

    def look_up(self) -> None:
        """Put the nearest tokens of all that wait at their places."""
        places, means, self._places, self._means = self._places, self._means, [], []
        if means:
            rows, guesses = map(torch.stack, zip(*means, strict=True))
            for (ids, at), id in zip(places, self.table.nearest(rows, guesses).tolist(), strict=True):
                ids[at] = id
