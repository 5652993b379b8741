"""One pass over a batch: chunks of prompts, or one input per sequence; then the choice of each next input."""

from __future__ import annotations

from bisect import bisect_left
from collections import abc
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from sottovoce.models.engine.batch import Batch, Choices, padded
from sottovoce.models.engine.cache import KVCache, whole_rounds
from sottovoce.models.engine.request import Cached, How, Ids, Piece, Rows, Thinking
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface.devices import upload
from sottovoce.models.huggingface.layers import Change
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import FINAL, Reading

SHORTEST_THOUGHT = 1e-6  # as in the published code of LatentMAS: nothing is divided by less
SHORTEST = 256  # columns of a captured step: attending to a few more costs less than another capture

Addition = tuple[int, int, torch.Tensor, How]
"""Index in the batch, first position, the delta (n, w), and what happens with it there."""


@dataclass(frozen=True)
class StepOutput:
    """The output of a pass, on the device, for the sequences that are chosen for."""

    choices: Choices | None
    """The choices for those who speak; None if nobody does."""
    states: abc.Mapping[int, torch.Tensor]
    """The states (b, H) of those who speak, by layer."""
    thoughts: torch.Tensor | None
    """The next latent steps (b, E) of those who think; None if nobody does."""


@dataclass(frozen=True)
class Runner:
    """Runs batches on a network and changes only the KV cache, so that a failed pass can be repeated."""

    network: Network
    at_least: int = 0
    """The sequences of every step if the engine is `exact`, else 0: then passes have one shape, and sums one order."""

    def run(self, batch: Batch, cache: KVCache, ahead: int = 0) -> StepOutput:
        """Read the batch, and choose the next input of sequences that have read their prompts.

        `ahead` passes before this one have not been noted yet in the sequences.
        """
        network = self.network
        if batch.prompts:
            for slot, sequence in enumerate(batch.sequences, batch.first):
                for column, piece, start in sequence.to_paste:
                    cache.insert(slot, column, piece, start, network.rotary)
            reading = self._prompts(batch, cache)
            seen = network.forward(reading, batch.layers, changes_of(batch, reading.inputs.shape[1]))
        elif batch.drafts:
            seen = network.forward(self._check(batch, cache), batch.layers)
        else:
            seen = network.step(self._step(batch, cache, ahead), batch.layers)
        if not batch.chosen:
            return StepOutput(None, {}, None)
        at = self._places(batch)
        logits, states = seen.logits.to(network.device), seen.states  # of a spread model, from its last device
        if at is not None:
            logits, states = logits[at], _rows(states, at)
        thoughts = self._thoughts(batch, states[FINAL]) if batch.thinking else None
        if not batch.speakers:
            return StepOutput(None, {}, thoughts)
        if thoughts is not None:
            speaking = upload(batch.speaking, logits.device)
            logits, states = logits[speaking], _rows(states, speaking)
        choices = batch.choose(logits, self.at_least, ahead)
        batch.mean_rows, batch.inputs = choices.mean_rows, self._next_inputs(choices) if batch.feeds else None
        return StepOutput(choices, states, thoughts)

    def _next_inputs(self, choices: Choices) -> torch.Tensor:
        """Return the next inputs of speaking sequences, ids (b,) or rows (b, E), without waiting for the device."""
        inputs = choices.tokens
        if not choices.mean_rows:
            return inputs
        own = self.network.table.key
        if len(choices.mean_rows) == 1 and len(choices.mean_rows[0].at) == len(inputs):
            return choices.mean_rows[0].rows[own]
        inputs = self.network.embed(inputs.clamp_min(0))
        for means in choices.mean_rows:
            inputs[upload(means.at, inputs.device)] = means.rows[own]
        return inputs

    def _places(self, batch: Batch) -> slice | torch.Tensor | None:
        """Return the rows of a pass for which a token is chosen, or None if these are all rows."""
        n = len(batch.chosen)
        if batch.drafts:  # the pass returned no others
            return None
        if n == len(batch.sequences):
            return slice(n) if self.at_least or self.network.cuda_graphs else None
        places = {id(each): i for i, each in enumerate(batch.sequences)}
        return upload([places[id(each)] for each in batch.chosen], self.network.device)

    def _thoughts(self, batch: Batch, states: torch.Tensor) -> torch.Tensor:
        if len(batch.thinking) < len(states):
            states = states[upload(batch.thinking, states.device)]
        thinking = [each for i in batch.thinking if (each := batch.chosen[i].request.thinking) is not None]
        return next_thoughts(states, thinking, self.at_least).to(self.network.table.rows)

    def _prompts(self, batch: Batch, cache: KVCache) -> Reading:
        """Return the next positions of prompts.

        All rows end together, so that the last query of each is the last of the pass. Shorter rows begin with padding,
        which reads id 0 at position 0 and is written to the spare column.
        """
        sequences, n, device = batch.sequences, max(batch.num_tokens), self.network.device
        read = [each.ahead for each in sequences]
        pads = [n - len(at) for at in read]
        end = max(at[-1] for at in read) + 1
        return Reading(
            _prompt_inputs(self.network, sequences, read, n),
            upload([[0] * pad + list(at) for at, pad in zip(read, pads, strict=True)], device),
            upload([[cache.columns] * pad + list(at) for at, pad in zip(read, pads, strict=True)], device),
            torch.arange(whole_rounds(end) if self.at_least else end, device=device),
            cache.window(batch.first, batch.first + len(sequences)),
            plain=not self.at_least and not any(pads) and not any(each.filled or each.to_paste for each in sequences),
            hidden=hidden_columns(sequences, whole_rounds(end) if self.at_least else end, device),
            sight=last_columns(sequences, read, n, device),
        )

    def _check(self, batch: Batch, cache: KVCache) -> Reading:
        """Return the last token of each sequence and the proposed tokens after it, padded at the end."""
        sequences, n, device = batch.sequences, max(batch.num_tokens), self.network.device
        inputs = [[each.next_id, *draft.ids] for each, draft in zip(sequences, batch.drafts, strict=True)]
        read = [[*range(each.filled, each.filled + len(ids))] for each, ids in zip(sequences, inputs, strict=True)]
        pads, end = [n - len(ids) for ids in inputs], max(at[-1] for at in read) + 1
        return Reading(
            upload([ids + [0] * pad for ids, pad in zip(inputs, pads, strict=True)], device),
            upload([at + [0] * pad for at, pad in zip(read, pads, strict=True)], device),
            upload([at + [cache.columns] * pad for at, pad in zip(read, pads, strict=True)], device),
            torch.arange(end, device=device),
            cache.window(0, len(sequences)),
            hidden=hidden_columns(sequences, end, device),
            selected=upload([n * i + j for i, ids in enumerate(inputs) for j in range(len(ids))], device),
        )

    def _step(self, batch: Batch, cache: KVCache, ahead: int) -> Reading:
        """Return one input for each of the sequences in slots 0 .. b.

        Queries beyond the number of sequences read nothing that counts.
        """
        sequences, device = batch.sequences, self.network.device
        filled = [each.filled + ahead for each in sequences]
        inputs = _step_inputs(self.network, sequences) if batch.inputs is None else batch.inputs
        queries, end = self._shape(inputs, max(filled) + 1, cache)
        idle = queries - len(sequences)
        if idle:
            inputs = torch.cat([inputs, inputs.new_zeros(idle, *inputs.shape[1:])])
        positions = upload(filled + [0] * idle, device)[:, None]
        columns = upload(filled + [cache.columns] * idle, device)[:, None] if idle else positions
        hidden = hidden_columns(sequences, end, device, queries)
        equal = not self.at_least and not self.network.cuda_graphs and min(filled) == max(filled)
        span, window = torch.arange(end, device=device), cache.window(0, queries)
        return Reading(inputs[:, None], positions, columns, span, window, equal and not hidden, hidden)

    def _shape(self, inputs: torch.Tensor, columns: int, cache: KVCache) -> tuple[int, int]:
        """Return the queries and columns of a step, for its inputs and the columns of the longest sequence."""
        if self.at_least:  # all slots and whole rounds of columns: sums have one order in any batch
            return cache.slots, whole_rounds(columns)
        if self.network.cuda_graphs:  # powers of two: few shapes, so that each can be captured
            queries, wide = (1 << (n - 1).bit_length() for n in (len(inputs), columns))
            shape = min(queries, cache.slots), min(max(wide, SHORTEST), cache.columns)
            return self.network.shape_of_step(shape, cache.window(0, cache.slots), inputs)
        return len(inputs), columns


def _prompt_inputs(
    network: Network, sequences: list[Sequence], read: abc.Sequence[abc.Sequence[int]], n: int
) -> torch.Tensor:
    """Return ids (b, n), or embeddings (b, n, E) if any sequence has latent pieces."""
    if not any(isinstance(piece, Rows) for each in sequences for piece in each.request.prompt):
        taken = [[each.request.inputs[i] for i in at] for each, at in zip(sequences, read, strict=True)]
        return upload([[0] * (n - len(ids)) + ids for ids in taken], network.device)
    whole = (torch.cat([_rows_of(network, piece) for piece in each.request.prompt]) for each in sequences)
    latent = [rows[list(at)] for rows, at in zip(whole, read, strict=True)]
    return torch.stack([nn.functional.pad(rows, (0, 0, n - len(rows), 0)) for rows in latent])


def _rows_of(network: Network, piece: Piece) -> torch.Tensor:
    """Return a piece of a prompt as embeddings (n, E), with zeros where keys and values are pasted."""
    table = network.table.rows
    if isinstance(piece, Cached):
        return table.new_zeros(len(piece), table.shape[1])
    rows = network.embed(upload(piece.ids, table.device, torch.long)) if isinstance(piece, Ids) else piece.rows
    return rows.to(table)


def _step_inputs(network: Network, sequences: list[Sequence]) -> torch.Tensor:
    """Return ids (b,), or embeddings (b, E) if any sequence feeds a mean or a thought."""
    rows = {i: each.next_row for i, each in enumerate(sequences) if each.next_row is not None}
    if len(rows) == len(sequences):
        return torch.stack(list(rows.values()))
    ids = upload([0 if i in rows else each.next_id for i, each in enumerate(sequences)], network.device)
    if not rows:
        return ids
    inputs = network.embed(ids)
    inputs[upload(list(rows), inputs.device)] = torch.stack(list(rows.values()))
    return inputs


def _rows(states: abc.Mapping[int, torch.Tensor], at: slice | torch.Tensor) -> abc.Mapping[int, torch.Tensor]:
    return {layer: each[at if isinstance(at, slice) else at.to(each.device)] for layer, each in states.items()}


def changes_of(batch: Batch, n: int) -> abc.Mapping[int, Change]:
    """Return changes of layer outputs (b, n, H) that add the prompts' deltas at their positions, in float32."""
    by_layer: dict[int, list[Addition]] = {}
    for i, sequence in enumerate(batch.sequences):
        ahead = sequence.ahead
        for edit in sequence.request.edits:
            a, b = (bisect_left(ahead, at) for at in (edit.at, edit.at + len(edit.delta)))
            if a < b:
                addition = i, n - len(ahead) + a, edit.delta[[at - edit.at for at in ahead[a:b]]], edit.how
                by_layer.setdefault(edit.layer, []).append(addition)
    return {layer: partial(added, additions) for layer, additions in by_layer.items()}


def added(additions: abc.Sequence[Addition], hidden: torch.Tensor) -> torch.Tensor:
    """Return states (b, n, H), each changed by its delta in float32, on the last coordinates if the delta has fewer."""
    hidden = hidden.clone()
    for i, at, delta, how in additions:
        states = hidden[i, at : at + len(delta), -delta.shape[1] :]
        new = delta.to(states.device).float()
        if how != "replace":
            new = (states.float() + new) / (2 if how == "mean" else 1)
        states.copy_(new)
    return hidden


def next_thoughts(states: torch.Tensor, thinking: abc.Sequence[Thinking], at_least: int = 0) -> torch.Tensor:
    """Return the inputs (b, E) of latent steps from the states (b, H) after the final norm, in float32.

    One product for each matrix, of at least `at_least` rows: then sums have one order in any batch.
    """
    groups: dict[int, list[int]] = {}
    for i, each in enumerate(thinking):
        groups.setdefault(id(each.matrix), []).append(i)
    parts, device = [], states.device
    for at in groups.values():
        matrix, rows = thinking[at[0]].matrix, (states if len(groups) == 1 else states[upload(at, device)]).float()
        parts.append(rows if matrix is None else (padded(rows, at_least) @ matrix.to(device).float())[: len(at)])
    thoughts, norms = parts[0], upload([each.norm for each in thinking], device, torch.float32)
    if len(groups) > 1:
        order = upload([i for at in groups.values() for i in at], device)
        thoughts = torch.cat(parts)[order.argsort()]
    longer: torch.Tensor = norms / thoughts.norm(dim=-1).clamp_min(SHORTEST_THOUGHT)
    return thoughts * longer[:, None]


def hidden_columns(
    sequences: list[Sequence], end: int, device: torch.device, rows: int = 0
) -> abc.Mapping[int, torch.Tensor]:
    """Return for each layer the columns (b, end) that it must not see; layers without an entry see all columns."""
    masks: dict[tuple[tuple[tuple[int, int], ...], ...], torch.Tensor] = {}
    found: dict[int, torch.Tensor] = {}
    for layer in {layer for each in sequences for layer in each.request.hidden}:
        ranges = tuple(each.request.hidden.get(layer, ()) for each in sequences)
        if ranges not in masks:
            mask = torch.zeros(max(rows, len(sequences)), end, dtype=torch.bool)
            for i, hidden in enumerate(ranges):
                for a, b in hidden:
                    mask[i, a:b] = True
            masks[ranges] = mask.to(device)
        found[layer] = masks[ranges]
    return found


def last_columns(
    sequences: list[Sequence], read: abc.Sequence[abc.Sequence[int]], n: int, device: torch.device
) -> abc.Mapping[int, torch.Tensor]:
    """Return the last columns (b, n) that queries of prompts see, for layers where some see later positions."""
    ends: dict[tuple[int, ...], torch.Tensor] = {}
    found: dict[int, torch.Tensor] = {}
    for layer in {layer for each in sequences for layer in each.request.sight}:
        beyond = tuple(each.request.sight.get(layer, 0) for each in sequences)
        if beyond not in ends:
            rows = [
                [0] * (n - len(at)) + [min(column + more, each.length - 1) for column in at]
                for each, at, more in zip(sequences, read, beyond, strict=True)
            ]
            ends[beyond] = upload(rows, device)
        found[layer] = ends[beyond]
    return found
