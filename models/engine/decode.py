"""The choice of each sequence's next input from the logits of a pass: tokens, and mean embeddings.

Sequences of a batch may differ in feed, sampling and stops: from the same logits, some sequences get a token
and others a mean embedding. Finding a mean's nearest token takes a product with the whole table, as expensive as the
output head. Few steps need it; the other lookups wait and are made many at a time (`recorder.Pending`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.recorder import LATER, Largest
from sottovoce.models.engine.sequence import SampledToken, Sequence
from sottovoce.models.huggingface.devices import upload
from sottovoce.models.huggingface.embedding_table import Table, argmax, count_nonzero

NOW = LATER - 1  # in place of a mean's nearest token that may be a stop; LATER marks one that cannot be a stop


class Mean(NamedTuple):
    """The mean embedding that one sequence feeds."""

    rows: Mapping[str, torch.Tensor]
    """The mean (E,) by table key."""
    largest: Largest


def choose(own: Table, sequences: list[Sequence], logits: torch.Tensor, at_least: int = 0) -> list[SampledToken]:
    """Return the next input of each sequence from logits (b, V); means use the table `own` and the requests' tables.

    Matrix products have at least `at_least` rows, so that their sums are computed in the same order for any batch.
    """
    masks = {i: mask for i, each in enumerate(sequences) if (mask := each.mask()) is not None}
    allowed = sampling.limit(logits, masks) if masks else logits
    ids = torch.zeros(len(sequences), dtype=torch.long, device=logits.device)
    averaged: dict[int, Mean] = {}
    groups: dict[tuple[str, object], list[int]] = {}
    for i, each in enumerate(sequences):
        if kind := each.chooses(masks.get(i)):
            groups.setdefault((kind, each.request.feed.weigh), []).append(i)
    for (how, _), group in groups.items():
        at = slice(None) if len(group) == len(sequences) else upload(group, logits.device)
        some = [sequences[i] for i in group]
        if how == "token":
            ids[at] = _draw(allowed[at], some)
        else:
            ids[at], made = _average(own, some, logits[at], at_least)
            averaged.update(zip(group, made, strict=True))
    finite = logits.amax(-1).isfinite() & logits.amin(-1).isfinite()
    checked = torch.where(finite, ids, -1)
    if any(each.wants_best for each in sequences):
        chosen, best = torch.stack([checked, argmax(allowed)]).tolist()  # the only sync of a pass
    else:
        chosen, best = checked.tolist(), [-1] * len(sequences)  # likewise
    known = _look_up(own, sequences, averaged, chosen, at_least)
    found = enumerate(zip(known, best, logits.unbind(), strict=True))
    choices = [SampledToken(*each, *averaged.get(i, ())) for i, each in found]
    return [_in_form(own, *each) for each in zip(sequences, choices, strict=True)]


def _in_form(own: Table, sequence: Sequence, choice: SampledToken) -> SampledToken:
    """Apply a sequence's response format to a choice; a token that replaces a mean is a mean of one token."""
    effect = sequence.write(choice) if choice.is_finite else None
    if effect is None:
        return choice
    if effect.id is None or not effect.as_token:
        return replace(choice, effect=effect)
    id, feed = effect.id, sequence.request.feed
    if feed.kind == "token":
        return replace(choice, id=id, effect=effect)
    rows = {table.key: table.rows[id] for table in (own, *feed.tables)}
    weights = torch.zeros_like(choice.logits).index_fill(0, upload([id], choice.logits.device), 1.0)
    (largest,) = _largest(weights[None], sequence.request.record.sparse)
    return replace(choice, id=id, effect=effect, rows=rows, largest=largest)


def _draw(logits: torch.Tensor, sequences: list[Sequence]) -> torch.Tensor:
    samplings = [each.request.sampling for each in sequences]
    penalties = [each.repetition_penalty for each in samplings]
    if any(penalty != 1.0 for penalty in penalties):
        logits = sampling.penalise(logits, [[*each.prompt_ids, *each.ids] for each in sequences], penalties)
    if all(each.temperature == 0 for each in samplings):
        return argmax(logits)
    u = [one.u if each.temperature > 0 else 0.0 for one, each in zip(sequences, samplings, strict=True)]
    return sampling.draw(logits, samplings, upload(u, logits.device, torch.float64))


def _average(
    own: Table, sequences: list[Sequence], logits: torch.Tensor, at_least: int
) -> tuple[torch.Tensor, list[Mean]]:
    """Return the tokens (g,) and means of sequences with equal `weigh`, from logits (g, V).

    A token is LATER or NOW if it is not known.

    Products with whole tables have at least `at_least` rows.
    """
    p = sampling.distribution(logits, [each.request.sampling.temperature for each in sequences])
    weigh = sequences[0].request.feed.weigh
    weights = weigh(logits, p) if weigh else p
    tables = {table.key: table for each in sequences for table in (own, *each.request.feed.tables)}
    padded = _padded(weights, at_least)
    found = {key: table.mean(padded[:, : len(table)], all_rows=at_least > 0) for key, table in tables.items()}
    each_row = {key: rows.unbind() for key, rows in found.items()}
    keys = [[table.key for table in (own, *each.request.feed.tables)] for each in sequences]
    each_largest = _largest(weights, max(1, *(each.request.record.sparse for each in sequences)))
    made = [Mean({key: each_row[key][j] for key in keys[j]}, each) for j, each in enumerate(each_largest)]
    return _tokens(own, sequences, weights, found[own.key][: len(weights)]), made


def _tokens(own: Table, sequences: list[Sequence], weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the tokens (g,) of means (g, E), as far as they are known without a search of the whole table.

    A one-hot mean keeps its token: duplicate rows of a table make its nearest neighbor ambiguous. A mean that is
    nearer to its heaviest token than to any stop cannot have a stop as its nearest token.
    """
    heaviest = argmax(weights)
    open = torch.full_like(heaviest, LATER)
    if longest := max(len(each.nearest_stops) for each in sequences):
        # Sequences with fewer stops get token 0 instead, which costs at most one unneeded lookup.
        stops = [(*each.nearest_stops, *[0] * (longest - len(each.nearest_stops))) for each in sequences]
        open = torch.where(own.nearer(rows, heaviest, upload(stops, rows.device)), LATER, NOW)
    return torch.where(count_nonzero(weights) == 1, heaviest, open)


def _largest(weights: torch.Tensor, k: int) -> list[Largest]:
    """Return, for each row (V,), ids and values (k,) of the largest weights; all of them if there are fewer."""
    best = weights.topk(min(k, weights.shape[-1]), dim=-1)
    return list(zip(best.indices.unbind(), best.values.unbind(), strict=True))


def _look_up(
    own: Table, sequences: list[Sequence], averaged: Mapping[int, Mean], ids: list[int], at_least: int
) -> list[int | None]:
    """Return the ids of a pass, with the nearest tokens of the means that need them now; None for the others.

    With `at_least`, all are looked up at once and without guesses, because a guess changes the rows of a product.
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
