"""The mean embeddings that sequences feed, and as much of their nearest tokens as decoding needs.

To find a mean's nearest token takes a product with the whole table, as a pass of the output head does. Few
steps need it: the others wait until many are looked up at once (`pending.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.memory import upload
from sottovoce.models.engine.pending import LATER
from sottovoce.models.engine.recorder import Largest
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface import scans
from sottovoce.models.huggingface.table import Table

NOW = LATER - 1  # instead of a mean's nearest token: it may be a stop, which those of LATER cannot


class Mean(NamedTuple):
    """What one sequence feeds."""

    rows: Mapping[str, torch.Tensor]
    """By table key, (E,)."""
    largest: Largest


def average(
    own: Table, sequences: list[Sequence], logits: torch.Tensor, at_least: int
) -> tuple[torch.Tensor, list[Mean]]:
    """Means of sequences that weigh alike, from logits (g, V); and their tokens (g,), LATER or NOW where not known.

    Products with whole tables are taken over `at_least` as many rows.
    """
    p = sampling.distribution(logits, [each.request.sampling.temperature for each in sequences])
    weigh = sequences[0].request.feed.weigh
    weights = weigh(logits, p) if weigh else p
    tables = {table.key: table for each in sequences for table in (own, *each.request.feed.tables)}
    padded = _padded(weights, at_least)
    found = {key: table.mean(padded[:, : len(table)], whole=at_least > 0) for key, table in tables.items()}
    each_row = {key: rows.unbind() for key, rows in found.items()}
    keys = [[table.key for table in (own, *each.request.feed.tables)] for each in sequences]
    each_largest = largest(weights, max(1, *(each.request.record.sparse for each in sequences)))
    made = [Mean({key: each_row[key][j] for key in keys[j]}, each) for j, each in enumerate(each_largest)]
    return _tokens(own, sequences, weights, found[own.key][: len(weights)]), made


def _tokens(own: Table, sequences: list[Sequence], weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The tokens (g,) of means (g, E) as far as they are known without a look at the whole table.

    A single weight keeps its token: duplicate rows of a table make its nearest neighbour ambiguous. And what is
    nearer to its heaviest token than to any stop has no stop as its nearest.
    """
    heaviest = scans.argmax(weights)
    open = torch.full_like(heaviest, LATER)
    if longest := max(len(each.nearest_stops) for each in sequences):
        # Who has fewer stops gets token 0 instead: at worst one look more than is needed.
        stops = [(*each.nearest_stops, *[0] * (longest - len(each.nearest_stops))) for each in sequences]
        open = torch.where(own.nearer(rows, heaviest, upload(stops, rows.device)), LATER, NOW)
    return torch.where(scans.count_nonzero(weights) == 1, heaviest, open)


def largest(weights: torch.Tensor, k: int) -> list[Largest]:
    """Of each row (V,), the ids and values (k,) of the largest weights; all where there are fewer."""
    best = weights.topk(min(k, weights.shape[-1]), dim=-1)
    return list(zip(best.indices.unbind(), best.values.unbind(), strict=True))


def look_up(
    own: Table, sequences: list[Sequence], averaged: Mapping[int, Mean], ids: list[int], at_least: int
) -> list[int | None]:
    """The ids of a pass, with the nearest tokens of those means that need them now; None for the others.

    With `at_least` all are looked up at once, and without guesses: a guess spares rows of a product.
    """
    now = [i for i in averaged if ids[i] == NOW or (ids[i] == LATER and (at_least or sequences[i].reads_along))]
    if not now:
        return [None if id == LATER else id for id in ids]
    rows = torch.stack([averaged[i].rows[own.key] for i in now])
    guesses = torch.stack([averaged[i].largest[0][0] for i in now])
    found = own.nearest(_padded(rows, at_least))[: len(now)] if at_least else own.nearest(rows, guesses)
    nearest = dict(zip(now, found.tolist(), strict=True))
    return [nearest.get(i, None if id == LATER else id) for i, id in enumerate(ids)]


def _padded(rows: torch.Tensor, at_least: int) -> torch.Tensor:
    lacking = at_least - len(rows)
    return torch.cat([rows, rows[:1].expand(lacking, -1)]) if lacking > 0 else rows
