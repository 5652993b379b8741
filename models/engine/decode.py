"""The choice of each sequence's next input from the logits of a pass: tokens, and mean embeddings.

Sequences of a batch may differ in feed, sampling and stops: from the same logits, some sequences get a token
and others a mean embedding. Finding a mean's nearest token takes a product with the whole table, as expensive as the
output head. Few steps need it; the other lookups wait and are made many at a time (`recorder.Recent`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.constrained_decoding import Effect
from sottovoce.models.engine.plan import Group, Plan
from sottovoce.models.engine.recorder import LATER, Means
from sottovoce.models.engine.vocabulary import Mask
from sottovoce.models.huggingface.devices import download, upload
from sottovoce.models.huggingface.embedding_table import Table, argmax, count_nonzero

NOW = LATER - 1  # in place of a mean's nearest token that may be a stop; LATER marks one that cannot be a stop


@dataclass(eq=False)
class Choices:
    """The choices for all who speak, on the device until they are read."""

    plan: Plan
    logits: torch.Tensor
    """(b, V)."""
    tokens: torch.Tensor
    """(b,), LATER or NOW for a mean whose token is not known."""
    mean_rows: list[Means]
    at_least: int
    masks: Mapping[int, Mask]
    """The tokens that response formats allow, by index."""
    checked: Callable[[], list[list[int]]]
    """Waits for the tokens (b,), and the argmax of the logits that the formats allow if any sequence needs it."""
    effects: dict[int, Effect] = field(default_factory=dict)
    """The effects of response formats, by index."""

    def read(self, own: Table) -> tuple[list[int], list[int]]:
        """Return tokens, and argmaxes or -1; a token is -1 if logits were not finite. Waits for the device."""
        ids, *best = self.checked()
        argmaxes = best[0] if best else [-1] * len(ids)
        _look_up(own, self, ids)
        for i in self.plan.formed:
            if ids[i] != -1:
                self._write(own, i, ids, argmaxes[i])
        return ids, argmaxes

    def averages(self, i: int) -> bool:
        """Return True if the mean of a sequence is its next input, unless its response format forbids it."""
        sequence = self.plan.speakers[i]
        return sequence.request.feed.kind == "mean" and sequence.may_average(self.masks.get(i))

    def _write(self, own: Table, i: int, ids: list[int], best: int) -> None:
        """Apply a sequence's response format to its choice; a token that replaces a mean is a mean of one token."""
        sequence = self.plan.speakers[i]
        effect = sequence.write(ids[i], best, averaged=self.averages(i))
        self.effects[i] = effect
        if effect.id is None:
            return
        ids[i] = effect.id
        if effect.as_token and sequence.request.feed.kind == "mean":
            (means,) = (each for each in self.mean_rows if i in each.at)
            _feed_token(own, sequence.request.feed.tables, means, means.at.index(i), effect.id)


def choose(own: Table, plan: Plan, logits: torch.Tensor, at_least: int = 0, ahead: int = 0) -> Choices:
    """Choose from logits (b, V) of all who speak; means use the table `own` and the requests' tables.

    Matrix products have at least `at_least` rows, so that their sums are computed in the same order for any batch.
    `ahead` passes before this one have not been read yet.
    """
    finite = logits.amax(-1).isfinite() & logits.amin(-1).isfinite()
    usable = logits.index_put(tuple(plan.banned), logits.new_tensor(-torch.inf)) if plan.banned else logits
    masks = {i: mask for i in plan.formed if (mask := plan.speakers[i].mask()) is not None}
    allowed = sampling.limit(usable, masks) if masks else usable
    ids = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    for group in plan.drawn:
        ids = group.put(ids, _draw(group, group.of(allowed), ahead))
    found = []
    for group in plan.averaged:
        tokens, means = _average(own, group, group.of(usable), at_least)
        ids = group.put(ids, tokens)
        found.append(means)
    rows = [torch.where(finite, ids, -1), *([argmax(allowed)] if plan.wants_best else [])]
    return Choices(plan, logits, ids, found, at_least, masks, download(torch.stack(rows)))


def _draw(group: Group, logits: torch.Tensor, ahead: int) -> torch.Tensor:
    draws = group.draws
    if draws.penalised:
        seen = [[*each.reading.ids, *each.ids] for each in group.sequences]
        logits = sampling.penalise(logits, seen, [each.repetition_penalty for each in draws.samplings])
    if draws.greedy:
        return argmax(logits)
    u = upload(
        [each.uniform(ahead) for each in group.sequences],
        logits.device,
        torch.float32 if logits.device.type == "mps" else torch.float64,
    )
    return draws(logits, u)


def _average(own: Table, group: Group, logits: torch.Tensor, at_least: int) -> tuple[torch.Tensor, Means]:
    """Return the tokens (g,) and means of a group, from its logits (g, V).

    A token is LATER or NOW if it is not known. Products with whole tables have at least `at_least` rows.
    """
    p = sampling.distribution(logits, group.temperatures)
    weights = group.weigh(logits, p) if group.weigh else p
    padded, n = _padded(weights, at_least), len(weights)
    rows = {key: table.mean(padded[:, : len(table)], all_rows=at_least > 0)[:n] for key, table in group.tables.items()}
    heaviest = argmax(weights)
    if not group.sparse:
        recorded = weights.new_empty(len(weights), 0)
    else:  # a format writes into them, and `weigh` may have returned the caller's own tensor
        recorded = weights.clone() if group.weigh else weights
    return _tokens(own, group, weights, rows[own.key], heaviest), Means(group.at, rows, heaviest, recorded)


def _tokens(
    own: Table, group: Group, weights: torch.Tensor, rows: torch.Tensor, heaviest: torch.Tensor
) -> torch.Tensor:
    """Return the tokens (g,) of means (g, E), as far as they are known without a search of the whole table.

    A one-hot mean keeps its token: duplicate rows of a table make its nearest neighbor ambiguous. A mean that is
    nearer to its heaviest token than to any stop cannot have a stop as its nearest token.
    """
    open = torch.full_like(heaviest, LATER)
    if group.stops is not None:
        open = torch.where(own.nearer(rows, heaviest, group.stops), LATER, NOW)
    return torch.where(count_nonzero(weights) == 1, heaviest, open)


def _look_up(own: Table, choices: Choices, ids: list[int]) -> None:
    """Put the nearest tokens of the means that need them now in `ids`; LATER stands for the others.

    With `at_least`, all are looked up at once and without guesses, because a guess changes the rows of a product.
    """
    speakers, at_least = choices.plan.speakers, choices.at_least
    for means in choices.mean_rows:
        now = [
            j
            for j, i in enumerate(means.at)
            if (ids[i] == NOW or (ids[i] == LATER and (at_least or speakers[i].reads_along))) and choices.averages(i)
        ]
        if now:
            at = upload(now, choices.tokens.device)
            rows, guesses = means.rows[own.key][at], means.heaviest[at]
            found = own.nearest(_padded(rows, at_least))[: len(now)] if at_least else own.nearest(rows, guesses)
            for j, id in zip(now, found.tolist(), strict=True):
                ids[means.at[j]] = id


def _feed_token(own: Table, others: tuple[Table, ...], averaged: Means, j: int, id: int) -> None:
    """Replace a mean by the row of a token, with all the weight."""
    for table in (own, *others):
        averaged.rows[table.key][j] = table.rows[id]
    averaged.heaviest[j], averaged.weights[j] = id, 0.0
    averaged.weights[j, id : id + 1] = 1.0  # a slice, since weights that nobody records have no columns


def _padded(rows: torch.Tensor, at_least: int) -> torch.Tensor:
    lacking = at_least - len(rows)
    return torch.cat([rows, rows[:1].expand(lacking, -1)]) if lacking > 0 else rows
