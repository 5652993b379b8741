"""The one decoding loop: choose what each row feeds next, keep it, read it; rows leave as they end.

Rows of a batch may differ in feed, sampling, recorded layers, edits and length. A step chooses
tokens for some rows and mean embeddings for others from the same logits, and reads them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        means = [i for i, row in enumerate(self.rows) if row.request.feed.kind == "mean"]
        tokens = [i for i in range(len(self.rows)) if i not in set(means)]
        ids = torch.zeros(len(self.rows), dtype=torch.long, device=logits.device)
        if tokens:
            ids[tokens] = self._draw(logits if not means else logits[tokens], [self.rows[i] for i in tokens])
        latent: dict[int, _Mean] = self._average(logits, means) if means else {}
        for i, mean in latent.items():
            ids[i] = mean.id
        inputs = self._inputs(ids, latent)
        return self._choices(logits, ids, latent), inputs

    def _forward(self, inputs: torch.Tensor, *, edited: bool) -> torch.Tensor:
        states: States = {}
        requests = [row.request for row in self.rows]
        changes = capture([request.record for request in requests], states)
        if edited:
            changes = apply_edits(requests, changes)
        normed = states if any(request.record.final_norm for request in requests) else None
        logits = self.network.forward(inputs, self._past, changes, normed=normed)
        for i, row in enumerate(self.rows):
            row.see(i, states)
        return logits

    def _draw(self, logits: torch.Tensor, rows: Sequence[Row]) -> torch.Tensor:
        samplings = [row.request.sampling for row in rows]
        penalties = [each.repetition_penalty for each in samplings]
        if any(penalty != 1.0 for penalty in penalties):
            logits = sampling.penalise(logits, [row.seen + row.ids for row in rows], penalties)
        u = torch.stack([row.u[min(len(row.ids), len(row.u) - 1)] for row in rows])
        return sampling.draw(logits, samplings, u)

    def _average(self, logits: torch.Tensor, means: Sequence[int]) -> dict[int, _Mean]:
        """Mean embeddings of the rows that feed them, grouped by their averaging weights."""
        found: dict[int, _Mean] = {}
        groups: dict[object, list[int]] = {}
        for i in means:
            groups.setdefault(self.rows[i].request.feed.weigh, []).append(i)
        for group in groups.values():
            feeds = [self.rows[i].request.feed for i in group]
            temperatures = torch.tensor([self.rows[i].request.sampling.temperature for i in group])
            p = sampling.distribution(logits[group], temperatures.to(logits.device))
            weigh = feeds[0].weigh
            weights = weigh(logits[group], p) if weigh else p
            tables = {table.key: table for feed in feeds for table in feed.tables}
            found |= dict(zip(group, _means(self.network.table, tables, weights), strict=True))
        return found

    def _inputs(self, ids: torch.Tensor, latent: Mapping[int, _Mean]) -> torch.Tensor:
        if not self._as_rows:
            return ids
        inputs = self.network.embed(ids)
        for i, mean in latent.items():
            inputs[i] = mean.rows[self.network.table.key]
        return inputs

    def _choices(self, logits: torch.Tensor, ids: torch.Tensor, latent: Mapping[int, _Mean]) -> list[Choice]:
        records = [row.request.record for row in self.rows]
        sound = logits.isfinite().all(-1)
        host = torch.stack([torch.where(sound, ids, -1), logits.argmax(-1)], -1).tolist()  # the one sync of a step
        numbers = sampling.statistics(logits, ids) if any(record.stats for record in records) else None
        most = max((record.top for record in records if record.stats), default=0)
        top = logits.log_softmax(-1).topk(most, dim=-1) if numbers is not None else None
        return [
            Choice(
                id=host[i][0],
                argmax=host[i][1],
                stats=numbers[i] if numbers is not None and record.stats else None,
                top=(top.indices[i, : record.top], top.values[i, : record.top]) if top and record.stats else None,
                rows=latent[i].chosen(row.request.feed.tables, self.network.table) if i in latent else {},
                sparse=latent[i].largest(record.sparse) if i in latent and record.sparse else None,
            )
            for i, (row, record) in enumerate(zip(self.rows, records, strict=True))
        ]


class _Mean:
    """One row's mean embedding in every table that was asked for, and its nearest token."""

    def __init__(self, id: torch.Tensor, weights: torch.Tensor, rows: dict[str, torch.Tensor]) -> None:
        self.id, self.weights, self.rows = id, weights, rows

    def chosen(self, tables: Sequence[Table], own: Table) -> dict[str, torch.Tensor]:
        return {table.key: self.rows[table.key] for table in (own, *tables)}

    def largest(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        best = self.weights.topk(min(k, len(self.weights)))
        return best.indices, best.values


def _means(own: Table, tables: Mapping[str, Table], weights: torch.Tensor) -> list[_Mean]:
    rows = {key: table.mean(weights[:, : len(table)]) for key, table in {own.key: own, **tables}.items()}
    one_hot = ((weights > 0).sum(-1) == 1) & (weights.amax(-1) == 1.0)
    # A one-hot row keeps its token: duplicate rows of a table make its nearest neighbour ambiguous.
    ids = torch.where(one_hot, weights.argmax(-1), own.nearest(rows[own.key]))
    return [_Mean(ids[i], weights[i], {key: row[i] for key, row in rows.items()}) for i in range(len(weights))]
