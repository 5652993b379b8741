"""One step of the decoding loop: from logits, what each row feeds next.

Rows of a batch may differ in feed, sampling and stops. A step chooses tokens for some rows and mean
embeddings for others from the same logits, and reads them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from sottovoce.models import sampling
from sottovoce.models.memory import upload
from sottovoce.models.network import Network
from sottovoce.models.row import Choice, Row
from sottovoce.models.table import Table


def choose(
    network: Network, rows: Sequence[Row], logits: torch.Tensor, at_least: int = 0
) -> tuple[list[Choice], torch.Tensor]:
    """What each row feeds next: the choices, and the inputs as ids (b,) or embeddings (b, E).

    Products of matrices are taken over `at_least` as many rows: their sums then come in one order
    whatever the company.
    """
    means = _average(network.table, rows, logits, at_least)
    ids = _ids(rows, logits, means)
    return _choices(network.table, rows, logits, ids, means), _inputs(network, rows, ids, means)


@dataclass(frozen=True, eq=False)
class _Means:
    """The mean embeddings of some rows in every table that was asked for, and their nearest tokens."""

    at: list[int]
    """The rows' places in the batch (g,)."""
    ids: torch.Tensor
    weights: torch.Tensor
    rows: dict[str, torch.Tensor]
    """By table key: (g, E)."""

    @classmethod
    def of(cls, at: list[int], own: Table, tables: Mapping[str, Table], weights: torch.Tensor, at_least: int) -> _Means:
        """Average under weights (g, V)."""
        g = len(weights)
        padded = torch.cat([weights, weights[:1].expand(at_least - g, -1)]) if g < at_least else weights
        rows = {key: table.mean(padded[:, : len(table)]) for key, table in {own.key: own, **tables}.items()}
        # A one-hot row keeps its token: duplicate rows of a table make its nearest neighbour ambiguous.
        one_hot = weights.count_nonzero(-1) == 1
        ids = torch.where(one_hot, weights.argmax(-1), own.nearest(rows[own.key])[:g])
        return cls(at, ids, weights, {key: found[:g] for key, found in rows.items()})


def _average(own: Table, rows: Sequence[Row], logits: torch.Tensor, at_least: int) -> list[_Means]:
    """Mean embeddings of the rows that feed them, grouped by how they weigh."""
    groups: dict[object, list[int]] = {}
    for i, row in enumerate(rows):
        if row.request.feed.kind == "mean":
            groups.setdefault(row.request.feed.weigh, []).append(i)
    means = []
    for group in groups.values():
        feeds = [rows[i].request.feed for i in group]
        temperatures = [rows[i].request.sampling.temperature for i in group]
        raw = logits if len(group) == len(rows) else logits[upload(group, logits.device)]
        p = sampling.distribution(raw, temperatures)
        weigh = feeds[0].weigh
        weights = weigh(raw, p) if weigh else p
        tables = {table.key: table for feed in feeds for table in feed.tables}
        means.append(_Means.of(group, own, tables, weights, at_least))
    return means


def _ids(rows: Sequence[Row], logits: torch.Tensor, means: Sequence[_Means]) -> torch.Tensor:
    """The drawn token of each row (b,), or the nearest one to its mean."""
    if not means:
        return _draw(logits, rows)
    if len(means[0].at) == len(rows):
        return means[0].ids
    ids = torch.empty(len(rows), dtype=torch.long, device=logits.device)
    if tokens := [i for i, row in enumerate(rows) if row.request.feed.kind == "token"]:
        at = upload(tokens, logits.device)
        ids[at] = _draw(logits[at], [rows[i] for i in tokens])
    for group in means:
        ids[upload(group.at, ids.device)] = group.ids
    return ids


def _draw(logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
    samplings = [row.request.sampling for row in rows]
    penalties = [each.repetition_penalty for each in samplings]
    if any(penalty != 1.0 for penalty in penalties):
        logits = sampling.penalise(logits, [[*row.prompt_ids, *row.ids] for row in rows], penalties)
    if all(each.temperature == 0 for each in samplings):
        return logits.argmax(-1)
    u = [row.u if each.temperature > 0 else 0.0 for row, each in zip(rows, samplings, strict=True)]
    return sampling.draw(logits, samplings, upload(u, logits.device, torch.float64))


def _inputs(network: Network, rows: Sequence[Row], ids: torch.Tensor, means: Sequence[_Means]) -> torch.Tensor:
    own = network.table.key
    if not means:
        return ids
    if len(means[0].at) == len(rows):
        return means[0].rows[own]
    inputs = network.embed(ids)
    for group in means:
        inputs[upload(group.at, inputs.device)] = group.rows[own]
    return inputs


def _choices(
    own: Table, rows: Sequence[Row], logits: torch.Tensor, ids: torch.Tensor, means: Sequence[_Means]
) -> list[Choice]:
    checked = torch.where(logits.isfinite().all(-1), ids, -1)
    if any(row.request.stop.by == "argmax" for row in rows):
        chosen, best = torch.stack([checked, logits.argmax(-1)]).tolist()  # the one sync of a step
    else:
        chosen = best = checked.tolist()  # likewise
    found = [Choice(*each) for each in zip(chosen, best, logits.unbind(), strict=True)]
    for group in means:
        _with_means(own, rows, found, group)
    return found


def _with_means(own: Table, rows: Sequence[Row], found: list[Choice], group: _Means) -> None:
    by_table = {key: of_table.unbind() for key, of_table in group.rows.items()}
    for j, (i, weights) in enumerate(zip(group.at, group.weights.unbind(), strict=True)):
        keys = [table.key for table in (own, *rows[i].request.feed.tables)]
        plain = found[i]
        means = {key: by_table[key][j] for key in keys}
        found[i] = Choice(plain.id, plain.argmax, plain.logits, weights, means)
