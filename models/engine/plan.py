"""The plan of passes over the same sequences: which are chosen for together, and what is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.recorder import Means, Pending, Recent
from sottovoce.models.engine.request import Weigh
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface.devices import upload
from sottovoce.models.huggingface.embedding_table import Table
from sottovoce.models.huggingface.passes import FINAL


class Group:
    """Sequences whose next inputs are made in one way: drawn tokens, or means with one function of weights."""

    def __init__(self, at: list[int], speakers: list[Sequence], own: Table) -> None:
        """`at` has their indices among those who speak."""
        self.at, self.sequences = at, [speakers[i] for i in at]
        self.weigh = self.sequences[0].request.feed.weigh
        self._own, self._device = own, own.rows.device
        self._index = None if len(at) == len(speakers) else upload(at, self._device)

    @cached_property
    def draws(self) -> sampling.Draws:
        """How tokens are drawn."""
        return sampling.Draws([each.request.sampling for each in self.sequences], self._device)

    @cached_property
    def temperatures(self) -> sampling.Temperatures:
        """The temperatures of the distributions that are averaged."""
        return sampling.Temperatures([each.request.sampling.temperature for each in self.sequences], self._device)

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables of which means are made, by key."""
        return {table.key: table for each in self.sequences for table in (self._own, *each.request.feed.tables)}

    @cached_property
    def sparse(self) -> int:
        """The number of largest weights that are recorded of a mean."""
        return max(each.request.record.sparse for each in self.sequences)

    @cached_property
    def stops(self) -> torch.Tensor | None:
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


class Plan:
    """The sequences of a pass that are chosen for."""

    def __init__(self, sequences: list[Sequence], pending: Pending) -> None:
        """`pending` takes means without tokens."""
        self.sequences = sequences
        self.thinking = [i for i, each in enumerate(sequences) if each.thinks]
        """Indices of the sequences whose next input is a latent step; the others speak."""
        self.speaking = [i for i, each in enumerate(sequences) if not each.thinks]
        self.speakers = speakers = [sequences[i] for i in self.speaking]
        self.formed = [i for i, each in enumerate(speakers) if each.constraint is not None]
        """Indices among those who speak."""
        banned = [(i, id) for i, each in enumerate(speakers) for id in each.request.banned]
        self.banned = [upload(list(column), pending.table.rows.device) for column in zip(*banned, strict=True)]
        """Rows and ids of the logits that are banned; empty if none is."""
        self.wants_best = any(each.wants_best for each in speakers)
        recorded = {layer for each in sequences for layer in each.recorder.layers.values()}
        self.layers = sorted(recorded | {FINAL} if self.thinking else recorded)
        """The layers whose states are needed."""
        by: dict[tuple[str, Weigh | None], list[int]] = {}
        for i, each in enumerate(speakers):
            by.setdefault((each.request.feed.kind, each.request.feed.weigh), []).append(i)
        self.drawn = [Group(at, speakers, pending.table) for (kind, _), at in by.items() if kind == "token"]
        self.averaged = [Group(at, speakers, pending.table) for (kind, _), at in by.items() if kind == "mean"]
        self._own = pending.table.key
        self.feeds = not self.thinking and not self.formed
        """True if the next inputs are what was chosen, so that they stay on the device."""
        self.foreseen = self.feeds and not any(group.draws.penalised for group in self.drawn)
        """True if the next pass needs nothing of this one but what is on the device."""
        self.recent = Recent([each.recorder for each in speakers], pending)
        self.inputs: torch.Tensor | None = None
        """The next inputs that the last pass made, ids (b,) or rows (b, E); None if each sequence has its own."""
        self.mean_rows: list[Means] = []
        """The means that the last pass made."""

    @property
    def lasting(self) -> bool:
        """True if the next pass of the same sequences has the same plan, because none begins to speak."""
        return all(self.sequences[i].thinks for i in self.thinking)

    def hand_over(self) -> None:
        """Give the sequences their next inputs."""
        for means in self.mean_rows:
            for i, row in zip(means.at, means.rows[self._own].unbind(), strict=True):
                self.speakers[i].next_row = row
        self.inputs, self.mean_rows = None, []

    def end(self) -> None:
        """Give the sequences their next inputs, and what was recorded."""
        self.hand_over()
        self.settle()
        for each in self.speakers:
            each.recorder.recent = None

    def settle(self) -> None:
        """Give the sequences what was recorded."""
        try:
            self.recent.settle()
        except Exception as error:  # memory may be too short
            for each in self.speakers:
                each.fail(error)
