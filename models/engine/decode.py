"""From the logits of a pass to what each sequence feeds next.

Sequences of a batch may differ in feed, sampling and stops: tokens are chosen for some and mean
embeddings for others from the same logits.
"""

from __future__ import annotations

from dataclasses import replace

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
    masks = {i: mask for i, each in enumerate(sequences) if (mask := each.mask()) is not None}
    allowed = sampling.limit(logits, masks) if masks else logits
    ids = torch.zeros(len(sequences), dtype=torch.long, device=logits.device)
    averaged: dict[int, tuple[torch.Tensor, dict[str, torch.Tensor]]] = {}
    groups: dict[tuple[str, object], list[int]] = {}
    for i, each in enumerate(sequences):
        if kind := each.chooses(masks.get(i)):
            groups.setdefault((kind, each.request.feed.weigh), []).append(i)
    for (how, _), group in groups.items():
        at = slice(None) if len(group) == len(sequences) else upload(group, logits.device)
        some = [sequences[i] for i in group]
        if how == "token":
            ids[at] = _draw(allowed[at], some)
            continue
        weights, rows = _average(own, some, logits[at], at_least)
        # A single weight keeps its token: duplicate rows of a table make its nearest neighbour ambiguous.
        single = (weights != 0).sum(-1) == 1
        ids[at] = torch.where(single, weights.argmax(-1), own.nearest(rows[own.key])[: len(group)])
        each_row = {key: found.unbind() for key, found in rows.items()}
        for j, (i, weight) in enumerate(zip(group, weights.unbind(), strict=True)):
            keys = [table.key for table in (own, *sequences[i].request.feed.tables)]
            averaged[i] = weight, {key: each_row[key][j] for key in keys}
    checked = torch.where(logits.isfinite().all(-1), ids, -1)
    if any(each.wants_best for each in sequences):
        chosen, best = torch.stack([checked, allowed.argmax(-1)]).tolist()  # the one sync of a pass
    else:
        chosen = best = checked.tolist()  # likewise
    found = enumerate(zip(chosen, best, logits.unbind(), strict=True))
    choices = [Choice(*each, *averaged.get(i, ())) for i, each in found]
    return [_in_form(own, *each) for each in zip(sequences, choices, strict=True)]


def _in_form(own: Table, sequence: Sequence, choice: Choice) -> Choice:
    """What a sequence's form makes of a choice; a token instead of a mean is a mean of one."""
    written = sequence.write(choice) if choice.id >= 0 else None
    if written is None:
        return choice
    if written.id is None or not written.as_token:
        return replace(choice, written=written)
    id, feed = written.id, sequence.request.feed
    if feed.kind == "token":
        return replace(choice, id=id, written=written)
    weights = torch.zeros_like(choice.logits)
    weights[id] = 1.0
    rows = {table.key: table.rows[id] for table in (own, *feed.tables)}
    return replace(choice, id=id, written=written, weights=weights, rows=rows)


def _average(
    own: Table, sequences: list[Sequence], logits: torch.Tensor, at_least: int
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Averaging weights (g, V) of sequences that weigh alike, and by table key their means (g, E), perhaps padded."""
    p = sampling.distribution(logits, [each.request.sampling.temperature for each in sequences])
    weigh = sequences[0].request.feed.weigh
    weights = weigh(logits, p) if weigh else p
    tables = {table.key: table for each in sequences for table in (own, *each.request.feed.tables)}
    g = len(weights)
    padded = torch.cat([weights, weights[:1].expand(at_least - g, -1)]) if g < at_least else weights
    return weights, {key: table.mean(padded[:, : len(table)]) for key, table in tables.items()}


def _draw(logits: torch.Tensor, sequences: list[Sequence]) -> torch.Tensor:
    samplings = [each.request.sampling for each in sequences]
    penalties = [each.repetition_penalty for each in samplings]
    if any(penalty != 1.0 for penalty in penalties):
        logits = sampling.penalise(logits, [[*each.prompt_ids, *each.ids] for each in sequences], penalties)
    if all(each.temperature == 0 for each in samplings):
        return logits.argmax(-1)
    u = [one.u if each.temperature > 0 else 0.0 for one, each in zip(sequences, samplings, strict=True)]
    return sampling.draw(logits, samplings, upload(u, logits.device, torch.float64))
