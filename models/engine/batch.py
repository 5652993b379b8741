"""The sequences of a pass, or of many in a row, and the choice of their next inputs: tokens, and mean embeddings.

Sequences of a batch may differ in feed, sampling and stops: from the same logits, some sequences get a token
and others a mean embedding. Finding a mean's nearest token takes a product with the whole table, as expensive as the
output head. Few steps need it; the other lookups wait and are made many at a time (`recorder.Recent`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.lookup import Draft, Tokens
from sottovoce.models.engine.recorder import LATER, Means, Pending, Recent
from sottovoce.models.engine.request import Weigh
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface.devices import download, upload
from sottovoce.models.huggingface.embedding_table import Table, argmax, count_nonzero
from sottovoce.models.huggingface.passes import FINAL

if TYPE_CHECKING:
    from sottovoce.models.engine.grammar import Effect
    from sottovoce.models.engine.vocabulary import Mask

NOW = LATER - 1  # in place of a mean's nearest token that may be a stop; LATER marks one that cannot be a stop


class Group:
    """Sequences with one kind of next input: drawn tokens, or means with one function of weights."""

    def __init__(self, at: list[int], speakers: list[Sequence], before: list[Tokens], own: Table) -> None:
        """`at` has their indices among those who speak; `before` as in `Batch`; `own` is the model's table."""
        self.at, self.sequences, self._before = at, [speakers[i] for i in at], [before[i] for i in at]
        self._own, self._device = own, own.rows.device
        self._index = None if len(at) == len(speakers) else upload(at, self._device)

    @cached_property
    def draws(self) -> sampling.Draws:
        """How tokens are drawn."""
        return sampling.Draws([each.request.sampling for each in self.sequences], self._device)

    @cached_property
    def _temperatures(self) -> sampling.Temperatures:
        """The temperatures of the distributions that are averaged."""
        return sampling.Temperatures([each.request.sampling.temperature for each in self.sequences], self._device)

    @cached_property
    def _tables(self) -> Mapping[str, Table]:
        """The tables from which means are computed, by key."""
        return {table.key: table for each in self.sequences for table in (self._own, *each.request.feed.tables)}

    @cached_property
    def _sparse(self) -> int:
        """The number of largest weights that are recorded of a mean."""
        return max(each.request.record.sparse for each in self.sequences)

    @cached_property
    def _stops(self) -> torch.Tensor | None:
        """The tokens (g, n) that end a reply if one is nearest to the mean; None if there are none.

        Sequences with fewer have token 0 in their place, which costs at most one unneeded lookup.
        """
        requests = [each.request.stop for each in self.sequences]
        stops = [() if stop.by == "argmax" else stop.ids for stop in requests]
        longest = max(map(len, stops))
        return upload([(*each, *[0] * (longest - len(each))) for each in stops], self._device) if longest else None

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return their rows of a tensor (b, ...) of all who speak."""
        return tensor if self._index is None else tensor[self._index]

    def put(self, tensor: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return a tensor (b, ...) of all who speak with their rows replaced."""
        return rows if self._index is None else tensor.index_copy(0, self._index, rows)

    def draw(self, logits: torch.Tensor, ahead: int) -> torch.Tensor:
        """Return drawn tokens (g,) from logits (g, V), `ahead` passes after the last one that was read."""
        draws = self.draws
        if draws.penalised:
            spoken = zip(self.sequences, self._before, strict=True)
            seen = [[*each.request.ids, *each.ids, *before] for each, before in spoken]
            logits = sampling.penalise(logits, seen, [each.repetition_penalty for each in draws.samplings])
        if draws.greedy:
            return argmax(logits)
        kind = torch.float32 if logits.device.type == "mps" else torch.float64
        spoken = zip(self.sequences, self._before, strict=True)
        return draws(logits, upload([each.uniform(ahead + len(ids)) for each, ids in spoken], logits.device, kind))

    def average(self, logits: torch.Tensor, at_least: int) -> tuple[torch.Tensor, Means]:
        """Return the tokens (g,) and means of logits (g, V).

        A token that is not known yet is LATER or NOW. Products with a whole table have at least `at_least` rows.
        """
        weigh = self.sequences[0].request.feed.weigh
        p = sampling.distribution(logits, self._temperatures)
        weights = weigh(logits, p) if weigh else p
        whole, n, exact = padded(weights, at_least), len(weights), at_least > 0
        rows = {key: table.mean(whole[:, : len(table)], all_rows=exact)[:n] for key, table in self._tables.items()}
        heaviest = argmax(weights)
        if not self._sparse:
            recorded = weights.new_empty(len(weights), 0)
        else:  # a format writes into them, and `weigh` may have returned the caller's own tensor
            recorded = weights.clone() if weigh else weights
        return self._tokens(weights, rows[self._own.key], heaviest), Means(self.at, rows, heaviest, recorded)

    def _tokens(self, weights: torch.Tensor, rows: torch.Tensor, heaviest: torch.Tensor) -> torch.Tensor:
        """Return the tokens (g,) of means (g, E), as far as they are known without a search of the whole table.

        A one-hot mean keeps its token: duplicate rows of a table make its nearest neighbor ambiguous. A mean that is
        nearer to its heaviest token than to any stop cannot have a stop as its nearest token.
        """
        open = torch.full_like(heaviest, LATER)
        if self._stops is not None:
            open = torch.where(self._own.nearer(rows, heaviest, self._stops), LATER, NOW)
        return torch.where(count_nonzero(weights) == 1, heaviest, open)


class Batch:
    """Sequences in adjacent slots, and the ones among them for which a pass chooses a next input.

    The batch of the decoding steps lasts until its sequences change. A batch of prompts lasts one pass. A batch of
    decoding sequences with proposed tokens also lasts one pass, and these speak once for each position.
    """

    def __init__(
        self,
        sequences: list[Sequence],
        pending: Pending,
        first: int = 0,
        num_tokens: list[int] | None = None,
        drafts: list[Draft] | None = None,
        recent: Recent | None = None,
    ) -> None:
        """The sequences decode, or the pass reads `num_tokens` of each prompt.

        `first` is the slot of the first sequence, and `pending` takes means without tokens. A batch with `drafts`, one
        for each sequence, has the records `recent` of the steps that it stands among.
        """
        self.sequences, self.first, self.prompts, self.drafts = sequences, first, num_tokens is not None, drafts or []
        self.num_tokens = num_tokens or [1 + len(draft.ids) for draft in self.drafts] or [1] * len(sequences)
        read = [*zip(sequences, self.num_tokens, strict=True)]
        self.chosen = sequences
        """The sequences that are chosen for: all but those whose prompts are not read to their ends."""
        if self.prompts:
            self.chosen = [each for each, n in read if each.after(n) >= each.length]
        elif self.drafts:
            self.chosen = [each for each, n in read for _ in range(n)]
        self.thinking = [i for i, each in enumerate(self.chosen) if each.thinks]
        """Indices of the sequences whose next input is a latent step; the others speak."""
        self.speaking = [i for i, each in enumerate(self.chosen) if not each.thinks]
        self.speakers = speakers = [self.chosen[i] for i in self.speaking]
        proposed = [draft.ids[:n] for draft in self.drafts for n in range(len(draft.ids) + 1)]
        self.before: list[Tokens] = proposed or [()] * len(speakers)
        """The proposed tokens behind its reply that a choice for one of those who speak supposes."""
        self._foreseen = [state for draft in self.drafts for state in draft.states]
        self.owners = [i for i, draft in enumerate(self.drafts) for _ in draft.states]
        """For each choice of a batch with drafts, which of its sequences it is for."""
        self.formed = [i for i, each in enumerate(speakers) if each.constraint is not None]
        """Indices among those who speak."""
        self.own = own = pending.table
        banned = [(i, id) for i, each in enumerate(speakers) for id in each.request.banned]
        self.banned = [upload(list(column), own.rows.device) for column in zip(*banned, strict=True)]
        """Rows and ids of the logits that are banned; empty if none is."""
        self.wants_best = any(
            each.request.stop.by == "argmax" or (each.constraint is not None and each.request.feed.kind == "mean")
            for each in speakers
        )
        """True if argmaxes are needed, of all logits or of those that a format allows."""
        recorded = {layer for each in self.chosen for layer in each.recorder.layers.values()}
        self.layers = sorted(recorded | {FINAL} if self.thinking else recorded)
        """The layers whose states are needed."""
        by: dict[tuple[str, Weigh | None], list[int]] = {}
        for i, each in enumerate(speakers):
            by.setdefault((each.request.feed.kind, each.request.feed.weigh), []).append(i)
        self.drawn = [Group(at, speakers, self.before, own) for (kind, _), at in by.items() if kind == "token"]
        self.averaged = [Group(at, speakers, self.before, own) for (kind, _), at in by.items() if kind == "mean"]
        self.feeds = not self.thinking and not self.formed
        """True if the next inputs are what was chosen, so that they stay on the device."""
        self.open = not self.thinking and not self.averaged
        """True if all choices are tokens, so that more of them may be proposed."""
        self.foreseen = self.feeds and not any(group.draws.penalised for group in self.drawn)
        """True if the next pass needs nothing of this one but what is on the device."""
        self.recent = recent or Recent([each.recorder for each in speakers], pending)
        self.inputs: torch.Tensor | None = None
        """The next inputs that the last pass made, ids (b,) or rows (b, E); None if each sequence has its own."""
        self.mean_rows: list[Means] = []
        """The means that the last pass made."""

    @property
    def lasting(self) -> bool:
        """True if the batch stays as it is in the next pass, because none of its sequences begins to speak."""
        return all(self.chosen[i].thinks for i in self.thinking)

    def choose(self, logits: torch.Tensor, at_least: int = 0, ahead: int = 0) -> Choices:
        """Choose from logits (b, V) of all who speak; means use the model's table and the requests' tables.

        Matrix products have at least `at_least` rows, so that their sums are computed in the same order for any batch.
        `ahead` passes before this one have not been read yet.
        """
        finite = logits.amax(-1).isfinite() & logits.amin(-1).isfinite()
        usable = logits.index_put(tuple(self.banned), logits.new_tensor(-torch.inf)) if self.banned else logits
        masks: dict[int, Mask] = {}
        for i in self.formed:
            state = self._foreseen[i] if self.drafts else self.speakers[i].constraint
            if state is not None and (mask := state.mask()) is not None:
                masks[i] = mask
        allowed = sampling.limit(usable, masks) if masks else usable
        ids = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        for group in self.drawn:
            ids = group.put(ids, group.draw(group.of(allowed), ahead))
        found = []
        for group in self.averaged:
            tokens, means = group.average(group.of(usable), at_least)
            ids = group.put(ids, tokens)
            found.append(means)
        rows = [torch.where(finite, ids, -1), *([argmax(allowed)] if self.wants_best else [])]
        return Choices(self, logits, ids, found, at_least, masks, download(torch.stack(rows)))

    def is_confirmed(self, i: int, taken: list[int]) -> bool:
        """Return True if a choice's proposed tokens before it were really drawn; `taken` are the earlier choices."""
        if not self.before[i]:
            return True
        speaker = self.speakers[i]
        return taken[-1:] == [i - 1] and not speaker.ended and speaker.next_id == self.before[i][-1]

    def hand_over(self) -> None:
        """Give the sequences their next inputs."""
        for means in self.mean_rows:
            for i, row in zip(means.at, means.rows[self.own.key].unbind(), strict=True):
                self.speakers[i].next_row = row
        self.inputs, self.mean_rows = None, []

    def end(self) -> None:
        """Give the sequences their next inputs and their records."""
        self.hand_over()
        self.settle()
        for each in self.speakers:
            each.recorder.recent = None

    def settle(self) -> None:
        """Give the sequences their records."""
        try:
            self.recent.settle()
        except Exception as error:  # memory may be too short
            for each in self.speakers:
                each.fail(error)


@dataclass(eq=False)
class Choices:
    """The choices for all who speak, on the device until they are read."""

    batch: Batch
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

    def read(self) -> tuple[list[int], list[int]]:
        """Return tokens, and argmaxes or -1; a token is -1 if logits were not finite. Waits for the device.

        The means that need their nearest tokens now get them; LATER stands for the others. With `at_least`, all are
        looked up at once and without guesses, because a guess changes the rows of a product.
        """
        ids, *best = self.checked()
        speakers, own, at_least = self.batch.speakers, self.batch.own, self.at_least
        for means in self.mean_rows:
            now = [
                j
                for j, i in enumerate(means.at)
                if (ids[i] == NOW or (ids[i] == LATER and (at_least or speakers[i].reads_along))) and self._averages(i)
            ]
            if now:
                at = upload(now, self.tokens.device)
                rows, guesses = means.rows[own.key][at], means.heaviest[at]
                found = own.nearest(padded(rows, at_least))[: len(now)] if at_least else own.nearest(rows, guesses)
                for j, id in zip(now, found.tolist(), strict=True):
                    ids[means.at[j]] = id
        return ids, best[0] if best else [-1] * len(ids)

    def _averages(self, i: int) -> bool:
        """Return True if the mean of a sequence is its next input, unless its response format forbids it."""
        sequence = self.batch.speakers[i]
        freely = sequence.constraint is None or sequence.constraint.may_average(self.masks.get(i))
        return sequence.request.feed.kind == "mean" and freely

    def effect(self, i: int, id: int, best: int) -> Effect | None:
        """Return the effect of a sequence's format on its choice; a token instead of a mean is a mean of one token."""
        sequence = self.batch.speakers[i]
        if sequence.constraint is None:
            return None
        effect = sequence.write(id, best, averaged=self._averages(i))
        if effect.id is None:
            return effect
        if effect.as_token and sequence.request.feed.kind == "mean":
            (means,) = (each for each in self.mean_rows if i in each.at)
            j = means.at.index(i)
            for table in (self.batch.own, *sequence.request.feed.tables):
                means.rows[table.key][j] = table.rows[effect.id]
            means.heaviest[j], means.weights[j] = effect.id, 0.0
            means.weights[j, effect.id : effect.id + 1] = 1.0  # a slice: weights that nobody records have no columns
        return effect


def padded(rows: torch.Tensor, at_least: int) -> torch.Tensor:
    """Return rows (b, n) with more of them behind, up to `at_least`."""
    lacking = at_least - len(rows)
    return torch.cat([rows, rows[:1].expand(lacking, -1)]) if lacking > 0 else rows
