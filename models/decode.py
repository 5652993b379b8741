"""The one decoding loop: choose what each row feeds next, keep it, read it; rows leave as they end.

Rows of a batch may differ in feed, sampling, recorded layers, edits and length. A step chooses
tokens for some rows and mean embeddings for others from the same logits, and reads them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sottovoce.models import sampling
from sottovoce.models.network import Network, Past, States, apply_edits, capture, prompt_inputs
from sottovoce.models.request import Ids
from sottovoce.models.row import Choice, Job, Row
from sottovoce.models.table import Table
from sottovoce.models.text import Detokenizer


@torch.inference_mode()
def decode(network: Network, jobs: Sequence[Job], detokenizers: Mapping[bool, Detokenizer]) -> list[Row]:
    """Run a batch of jobs to its end and return their rows, finished, failed or cancelled, in order."""
    rows = [Row(job, detokenizers, len(network.layers) - 1) for job in jobs]
    batch = Batch(network, rows)
    logits = batch.prefill()
    while batch.rows:
        choices, inputs = batch.choose(logits)
        for row, choice in zip(batch.rows, choices, strict=True):
            row.keep(choice)
        inputs = batch.leave(inputs)
        if batch.rows:
            logits = batch.read(inputs)
    return rows


class Batch:
    """The rows that still decode, and what the model has read of them."""

    def __init__(self, network: Network, rows: Sequence[Row]) -> None:
        """Embeddings go in where any row has latent prompt pieces or feeds means; else ids."""
        self.network, self.rows = network, list(rows)
        requests = [row.request for row in rows]
        self._as_rows = any(
            request.feed.kind == "mean" or not all(isinstance(piece, Ids) for piece in request.prompt)
            for request in requests
        )
        room = max(request.stop.max_new for request in requests) + 1
        self._past = Past([request.length for request in requests], room, network.device)

    def prefill(self) -> torch.Tensor:
        """Read the prompts with their edits; returns logits (b, V)."""
        requests = [row.request for row in self.rows]
        return self._forward(prompt_inputs(self.network, requests, as_rows=self._as_rows), edited=True)

    def read(self, inputs: torch.Tensor) -> torch.Tensor:
        """Read one chosen input per row, ids (b,) or embeddings (b, E); returns logits (b, V)."""
        return self._forward(inputs[:, None], edited=False)

    def leave(self, inputs: torch.Tensor) -> torch.Tensor:
        """Drop the rows that are done from the batch and from the inputs."""
        stay = [i for i, row in enumerate(self.rows) if not row.left]
        if len(stay) == len(self.rows):
            return inputs
        self.rows = [self.rows[i] for i in stay]
        if stay:
            self._past.select(stay)
        return inputs[stay]

    def choose(self, logits: torch.Tensor) -> tuple[list[Choice], torch.Tensor]:
        """What each row feeds next: the choices, and the inputs as ids (b,) or embeddings (b, E)."""
        means = self._average(logits)
        ids = self._ids(logits, means)
        return self._choices(logits, ids, means), self._inputs(ids, means)

    def _ids(self, logits: torch.Tensor, means: Sequence[_Means]) -> torch.Tensor:
        """The drawn token of each row (b,), or the nearest one to its mean."""
        if not means:
            return self._draw(logits, self.rows)
        if len(means[0].at) == len(self.rows):
            return means[0].ids
        ids = torch.empty(len(self.rows), dtype=torch.long, device=logits.device)
        if tokens := [i for i, row in enumerate(self.rows) if row.request.feed.kind == "token"]:
            ids[tokens] = self._draw(logits[tokens], [self.rows[i] for i in tokens])
        for group in means:
            ids[group.at] = group.ids
        return ids

    def _inputs(self, ids: torch.Tensor, means: Sequence[_Means]) -> torch.Tensor:
        own = self.network.table.key
        if means and len(means[0].at) == len(self.rows):
            return means[0].rows[own]
        if not self._as_rows:
            return ids
        inputs = self.network.embed(ids)
        for group in means:
            inputs[group.at] = group.rows[own]
        return inputs

    def _forward(self, inputs: torch.Tensor, *, edited: bool) -> torch.Tensor:
        states: States = {}
        requests = [row.request for row in self.rows]
        changes = capture([request.record for request in requests], states)
        if edited:
            changes = apply_edits(requests, changes)
        normed = states if any(request.record.final_norm for request in requests) else None
        logits = self.network.forward(inputs, self._past, changes, normed=normed)
        by_row = {layer: state.unbind() for layer, state in states.items()}
        for i, row in enumerate(self.rows):
            row.see(i, by_row)
        return logits

    def _draw(self, logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
        samplings = [row.request.sampling for row in rows]
        penalties = [each.repetition_penalty for each in samplings]
        if any(penalty != 1.0 for penalty in penalties):
            logits = sampling.penalise(logits, [row.seen + row.ids for row in rows], penalties)
        u = torch.tensor([row.u[min(len(row.ids), len(row.u) - 1)] for row in rows], dtype=torch.float64)
        return sampling.draw(logits, samplings, u)

    def _average(self, logits: torch.Tensor) -> list[_Means]:
        """Mean embeddings of the rows that feed them, grouped by how they weigh."""
        groups: dict[object, list[int]] = {}
        for i, row in enumerate(self.rows):
            if row.request.feed.kind == "mean":
                groups.setdefault(row.request.feed.weigh, []).append(i)
        means = []
        for group in groups.values():
            feeds = [self.rows[i].request.feed for i in group]
            temperatures = torch.tensor([self.rows[i].request.sampling.temperature for i in group])
            raw = logits if len(group) == len(self.rows) else logits[group]
            p = sampling.distribution(raw, temperatures.to(logits.device))
            weigh = feeds[0].weigh
            weights = weigh(raw, p) if weigh else p
            tables = {table.key: table for feed in feeds for table in feed.tables}
            means.append(_Means.of(group, self.network.table, tables, weights))
        return means

    def _choices(self, logits: torch.Tensor, ids: torch.Tensor, means: Sequence[_Means]) -> list[Choice]:
        requests = [row.request for row in self.rows]
        first = logits.argmax(-1) if any(request.stop.by == "argmax" for request in requests) else ids
        sound = logits.isfinite().all(-1)
        host = torch.stack([torch.where(sound, ids, -1), first], -1).tolist()  # the one sync of a step
        kept: list[dict[str, Any]] = [{} for _ in self.rows]  # Any: fields of Choice, by name
        if any(request.record.stats for request in requests):
            self._keep_statistics(kept, logits, ids)
        for group in means:
            self._keep_means(kept, group)
        return [Choice(id, argmax, **fields) for (id, argmax), fields in zip(host, kept, strict=True)]

    def _keep_statistics(self, kept: Sequence[dict[str, Any]], logits: torch.Tensor, ids: torch.Tensor) -> None:
        records = [row.request.record for row in self.rows]
        top = logits.log_softmax(-1).topk(max(record.top for record in records if record.stats), dim=-1)
        pairs = zip(top.indices.unbind(), top.values.unbind(), strict=True)
        numbers = sampling.statistics(logits, ids).unbind()
        for fields, record, number, pair in zip(kept, records, numbers, pairs, strict=True):
            if record.stats:
                fields |= {"stats": number, "top": pair}

    def _keep_means(self, kept: Sequence[dict[str, Any]], group: _Means) -> None:
        rows = {key: of_table.unbind() for key, of_table in group.rows.items()}
        requests = [self.rows[i].request for i in group.at]
        most = max(request.record.sparse for request in requests)
        largest = group.weights.topk(min(most, group.weights.shape[-1]), dim=-1)
        pairs = zip(largest.indices.unbind(), largest.values.unbind(), strict=True)
        for j, (i, request, pair) in enumerate(zip(group.at, requests, pairs, strict=True)):
            keys = [table.key for table in (self.network.table, *request.feed.tables)]
            kept[i] |= {"rows": {key: rows[key][j] for key in keys}}
            if request.record.sparse:
                kept[i] |= {"sparse": pair}


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
    def of(cls, at: list[int], own: Table, tables: Mapping[str, Table], weights: torch.Tensor) -> _Means:
        """Average under weights (g, V)."""
        rows = {key: table.mean(weights[:, : len(table)]) for key, table in {own.key: own, **tables}.items()}
        one_hot = ((weights > 0).sum(-1) == 1) & (weights.amax(-1) == 1.0)
        # A one-hot row keeps its token: duplicate rows of a table make its nearest neighbour ambiguous.
        return cls(at, torch.where(one_hot, weights.argmax(-1), own.nearest(rows[own.key])), weights, rows)
