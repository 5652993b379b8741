"""The choice of each sequence's next input from the logits of a pass.

Sequences of a batch may differ in feed, sampling and stops: from the same logits, some sequences get a token
and others a mean embedding.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sottovoce.models.engine import mean_embedding, sampling
from sottovoce.models.engine.cache_budget import upload
from sottovoce.models.engine.sequence import SampledToken, Sequence
from sottovoce.models.huggingface.embedding_table import Table, argmax


def choose(own: Table, sequences: list[Sequence], logits: torch.Tensor, at_least: int = 0) -> list[SampledToken]:
    """Return the next input of each sequence from logits (b, V); means use the table `own` and the requests' tables.

    Matrix products have at least `at_least` rows, so that their sums are computed in the same order for any batch.
    """
    masks = {i: mask for i, each in enumerate(sequences) if (mask := each.mask()) is not None}
    allowed = sampling.limit(logits, masks) if masks else logits
    ids = torch.zeros(len(sequences), dtype=torch.long, device=logits.device)
    averaged: dict[int, mean_embedding.Mean] = {}
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
            ids[at], made = mean_embedding.average(own, some, logits[at], at_least)
            averaged.update(zip(group, made, strict=True))
    finite = logits.amax(-1).isfinite() & logits.amin(-1).isfinite()
    checked = torch.where(finite, ids, -1)
    if any(each.wants_best for each in sequences):
        chosen, best = torch.stack([checked, argmax(allowed)]).tolist()  # the only sync of a pass
    else:
        chosen, best = checked.tolist(), [-1] * len(sequences)  # likewise
    known = mean_embedding.look_up(own, sequences, averaged, chosen, at_least)
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
    (largest,) = mean_embedding.largest(weights[None], sequence.request.record.sparse)
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
