"""Means whose nearest tokens nobody has asked for yet."""

from __future__ import annotations

import torch

from sottovoce.models.huggingface.table import Table

LATER = -2  # in the place of an id that is not looked up yet
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

    def add(self, ids: list[int], mean: torch.Tensor, guess: torch.Tensor) -> None:
        """Let a mean (E,) wait, whose token comes next among `ids`; it is close to the guess ()."""
        self._places.append((ids, len(ids)))
        ids.append(LATER)
        self._means.append((mean, guess))
        if len(self._means) >= MOST:
            self.look_up()

    def look_up(self) -> None:
        """Put the nearest tokens of all that wait at their places."""
        if not self._means:
            return
        rows, guesses = map(torch.stack, zip(*self._means, strict=True))
        found = self.table.nearest(rows, guesses).tolist()
        for (ids, at), id in zip(self._places, found, strict=True):
            ids[at] = id
        self._places, self._means = [], []  # last: where memory ran out, they still wait
