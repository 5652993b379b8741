"""Means whose nearest tokens were not requested yet."""

from __future__ import annotations

import torch

from sottovoce.models.huggingface.embedding_table import Table

LATER = -2  # in place of an id that is not looked up yet
MOST = 1024  # maximum number of waiting means


class Pending:
    """The waiting means of all sequences on one network; the first request for a token looks all of them up.

    A product with the whole table costs little more over many means than over one.
    """

    def __init__(self, table: Table) -> None:
        """`table` has the embedding rows of the tokens."""
        self.table = table
        self._places: list[tuple[list[int], int]] = []
        self._means: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, ids: list[int], mean: torch.Tensor, guess: torch.Tensor) -> None:
        """Queue a mean (E,) whose token comes next in `ids`; `guess` () is a token close to it."""
        self._places.append((ids, len(ids)))
        ids.append(LATER)
        self._means.append((mean, guess))
        if len(self._means) >= MOST:
            self.look_up()

    def look_up(self) -> None:
        """Look up all waiting means and put their nearest tokens in their places."""
        if not self._means:
            return
        rows, guesses = map(torch.stack, zip(*self._means, strict=True))
        found = self.table.nearest(rows, guesses).tolist()
        for (ids, at), id in zip(self._places, found, strict=True):
            ids[at] = id
        self._places, self._means = [], []  # last: if memory runs out, they still wait
