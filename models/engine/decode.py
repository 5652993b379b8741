"""From the logits of a pass to what each sequence feeds next.

Sequences of a batch may differ in feed, sampling and stops: tokens are chosen for some and mean
embeddings for others from the same logits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.memory import upload
from sottovoce.models.engine.sequence import Choice, Sequence
from sottovoce.models.huggingface.table import Table


def choose(own: Table, sequences: list[Sequence], logits: torch.Tensor, at_least: int = 0) -> list[Choice]:
    """What each sequence feeds next, from logits (b, V); means are taken in `own` and in the tables asked for.

    Products of matrices are taken over `at_least` as many rows: their sums then come in one order
    whatever the batch.
    """
    means = _average(own, sequences, logits, at_least)
    return _choices(own, sequences, logits, _ids(sequences, logits, means), means)


@dataclass(frozen=True, eq=False)
class _Means:
    """The mean embeddings of some sequences in every table that was asked for, and their nearest tokens."""

    at: list[int]
    """The sequences' places in the batch (g,)."""
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
        # A single weight keeps its token: duplicate rows of a table make its nearest neighbour ambiguous.
        single = (weights != 0).sum(-1) == 1
        ids = torch.where(single, weights.argmax(-1), own.nearest(rows[own.key])[:g])
        return cls(at, ids, weights, {key: found[:g] for key, found in rows.items()})


def _average(own: Table, sequences: list[Sequence], logits: torch.Tensor, at_least: int) -> list[_Means]:
    """Mean embeddings of the sequences that feed them, grouped by how they weigh."""
    groups: dict[object, list[int]] = {}
    for i, each in enumerate(sequences):
        if each.request.feed.kind == "mean":
            groups.setdefault(each.request.feed.weigh, []).append(i)
    means = []
    for group in groups.values():
        feeds = [sequences[i].request.feed for i in group]
        temperatures = [sequences[i].request.sampling.temperature for i in group]
        raw = logits if len(group) == len(sequences) else logits[upload(group, logits.device)]
        p = sampling.distribution(raw, temperatures)
        weigh = feeds[0].weigh
        weights = weigh(raw, p) if weigh else p
        tables = {table.key: table for feed in feeds for table in feed.tables}
        means.append(_Means.of(group, own, tables, weights, at_least))
    return means


def _ids(sequences: list[Sequence], logits: torch.Tensor, means: list[_Means]) -> torch.Tensor:
    """The drawn token of each sequence (b,), or the nearest one to its mean."""
    if not means:
        return _draw(logits, sequences)
    if len(means[0].at) == len(sequences):
        return means[0].ids
    ids = torch.empty(len(sequences), dtype=torch.long, device=logits.device)
    if tokens := [i for i, each in enumerate(sequences) if each.request.feed.kind == "token"]:
        at = upload(tokens, logits.device)
        ids[at] = _draw(logits[at], [sequences[i] for i in tokens])
    for group in means:
        ids[upload(group.at, ids.device)] = group.ids
    return ids


def _draw(logits: torch.Tensor, sequences: list[Sequence]) -> torch.Tensor:
    samplings = [each.request.sampling for each in sequences]
    penalties = [each.repetition_penalty for each in samplings]
    if any(penalty != 1.0 for penalty in penalties):
        logits = sampling.penalise(logits, [[*each.prompt_ids, *each.ids] for each in sequences], penalties)
    if all(each.temperature == 0 for each in samplings):
        return logits.argmax(-1)
    u = [one.u if each.temperature > 0 else 0.0 for one, each in zip(sequences, samplings, strict=True)]
    return sampling.draw(logits, samplings, upload(u, logits.device, torch.float64))


def _choices(
    own: Table, sequences: list[Sequence], logits: torch.Tensor, ids: torch.Tensor, means: list[_Means]
) -> list[Choice]:
    checked = torch.where(logits.isfinite().all(-1), ids, -1)
    if any(each.request.stop.by == "argmax" for each in sequences):
        chosen, best = torch.stack([checked, logits.argmax(-1)]).tolist()  # the one sync of a pass
    else:
        chosen = best = checked.tolist()  # likewise
    found = [Choice(*each) for each in zip(chosen, best, logits.unbind(), strict=True)]
    for group in means:
        _with_means(own, sequences, found, group)
    return found


def _with_means(own: Table, sequences: list[Sequence], found: list[Choice], group: _Means) -> None:
    by_table = {key: of_table.unbind() for key, of_table in group.rows.items()}
    for j, (i, weights) in enumerate(zip(group.at, group.weights.unbind(), strict=True)):
        keys = [table.key for table in (own, *sequences[i].request.feed.tables)]
        plain = found[i]
        means = {key: by_table[key][j] for key in keys}
        found[i] = Choice(plain.id, plain.argmax, plain.logits, weights, means)
