"""Nearest tokens that are looked up together."""

from __future__ import annotations

import pytest
import torch

from sottovoce.models import Table
from sottovoce.models.engine.recorder import LATER, MAX_PENDING, Pending
from tests.support import noise

FIRST = torch.tensor(0)  # a guess that helps nothing


class Weak(Table):
    """A table that is looked through once memory suffices."""

    enough = False

    def _look_through(self, rows: torch.Tensor) -> torch.Tensor:
        if not self.enough:
            raise MemoryError("too little")
        return super()._look_through(rows)


def test_all_that_wait_get_their_tokens_at_their_places() -> None:
    table = Table(noise(50, 8))
    pending, one, other = Pending(table), [4], list[int]()

    pending.add(one, table.rows[7], FIRST)
    pending.add(other, table.rows[9], FIRST)
    one.append(5)
    pending.add(one, table.rows[11], FIRST)
    assert (one, other) == ([4, LATER, 5, LATER], [LATER])
    pending.look_up()

    assert (one, other) == ([4, 7, 5, 11], [9])


def test_no_more_wait_than_may() -> None:
    table, ids = Table(noise(50, 8)), list[int]()
    pending = Pending(table)

    for i in range(MAX_PENDING + 1):
        pending.add(ids, table.rows[i % 50], FIRST)

    assert ids == [*(i % 50 for i in range(MAX_PENDING)), LATER]


def test_where_memory_runs_out_they_still_wait() -> None:
    table, ids = Weak(noise(50, 8)), list[int]()
    pending = Pending(table)
    pending.add(ids, table.rows[7], FIRST)

    with pytest.raises(MemoryError):
        pending.look_up()
    table.enough = True
    pending.look_up()

    assert ids == [7]
