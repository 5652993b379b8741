"""One pass over a batch: chunks of prompts, or one input per sequence; then the choice of each next input."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from sottovoce.models.engine.decode import choose
from sottovoce.models.engine.kv_cache import KVCache
from sottovoce.models.engine.request import Ids, Piece
from sottovoce.models.engine.sequence import SampledToken, Sequence
from sottovoce.models.huggingface.devices import upload
from sottovoce.models.huggingface.layers import Change
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import FINAL, Reading

ROUND = 64  # exact passes attend to a multiple of this many columns, and cache prefixes in such blocks
SHORTEST = 256  # columns of a captured step: attending to a few more costs less than another capture

Addition = tuple[int, int, torch.Tensor]
"""Index in the batch, first position, and the delta (n, H) to add there."""


@dataclass(frozen=True)
class Batch:
    """Sequences in adjacent slots, and how many positions of each a pass reads."""

    sequences: list[Sequence]
    first: int
    """The slot of the first sequence."""
    num_tokens: list[int]
    """Positions to read: of prompts, or 1 for each decoding sequence."""
    prompts: bool


@dataclass(frozen=True)
class StepOutput:
    """The output of a pass."""

    states: abc.Mapping[int, torch.Tensor]
    """The state (b, H) of each sequence's last position, by layer."""
    choices: abc.Mapping[int, SampledToken]
    """The choices by index in the batch; there is none for a prompt that is not read to its end."""


class Runner:
    """Runs batches on a network and changes only the KV cache, so that a failed pass can be repeated."""

    def __init__(self, network: Network, *, exact: bool, slots: int) -> None:
        """`exact`: passes have one shape, with `slots` sequences in every step, so that sums have one order."""
        self._network, self._exact, self._at_least = network, exact, slots if exact else 0

    def run(self, batch: Batch, cache: KVCache) -> StepOutput:
        """Read the batch, and choose the next input of sequences whose prompts are read."""
        sequences, network = batch.sequences, self._network
        layers = recorded(sequences, len(network.layers) - 1)
        if batch.prompts:
            reading = self._prompts(batch, cache)
            seen = network.forward(reading, layers, changes_of(batch, reading.inputs.shape[1]))
        else:
            seen = network.step(self._step(sequences, cache), layers)
        last = zip(sequences, batch.num_tokens, strict=True)
        done = [i for i, (sequence, n) in enumerate(last) if sequence.filled + n >= sequence.length]
        if not done:
            return StepOutput(seen.states, {})
        logits = seen.logits[: len(sequences)] if len(done) == len(sequences) else seen.logits[done]
        choices = choose(network.table, [sequences[i] for i in done], logits, self._at_least)
        return StepOutput(seen.states, dict(zip(done, choices, strict=True)))

    def _prompts(self, batch: Batch, cache: KVCache) -> Reading:
        """Return the next positions of prompts.

        All rows end together, so that the last query of each is the last of the pass. Shorter rows begin with padding,
        which reads id 0 at position 0 and is written to the spare column.
        """
        sequences, n, device = batch.sequences, max(batch.num_tokens), self._network.device
        read = [range(each.filled, each.filled + take) for each, take in zip(sequences, batch.num_tokens, strict=True)]
        pads = [n - len(at) for at in read]
        end = max(at.stop for at in read)
        return Reading(
            _prompt_inputs(self._network, sequences, read, n),
            upload([[0] * pad + list(at) for at, pad in zip(read, pads, strict=True)], device),
            upload([[cache.columns] * pad + list(at) for at, pad in zip(read, pads, strict=True)], device),
            torch.arange(whole_rounds(end) if self._exact else end, device=device),
            cache.window(batch.first, batch.first + len(sequences)),
            plain=not self._exact and not any(pads) and not any(each.filled for each in sequences),
        )

    def _step(self, sequences: list[Sequence], cache: KVCache) -> Reading:
        """Return one input for each of the sequences in slots 0 .. b.

        Queries beyond the number of sequences read nothing that counts.
        """
        filled, device = [each.filled for each in sequences], self._network.device
        queries, end = self._shape(len(sequences), max(filled) + 1, cache)
        inputs, idle = _step_inputs(self._network, sequences), queries - len(sequences)
        if idle:
            inputs = torch.cat([inputs, inputs.new_zeros(idle, *inputs.shape[1:])])
        positions = upload(filled + [0] * idle, device)[:, None]
        columns = upload(filled + [cache.columns] * idle, device)[:, None] if idle else positions
        plain = not self._exact and not self._network.uses_cuda_graphs and min(filled) == max(filled)
        return Reading(
            inputs[:, None], positions, columns, torch.arange(end, device=device), cache.window(0, queries), plain
        )

    def _shape(self, sequences: int, columns: int, cache: KVCache) -> tuple[int, int]:
        """Return the queries and columns of a step, for a number of sequences and the columns of the longest one."""
        if self._exact:  # all slots and whole rounds of columns: sums have one order in any batch
            return cache.slots, whole_rounds(columns)
        if self._network.uses_cuda_graphs:  # powers of two: few shapes, so that each can be captured
            queries, wide = (1 << (n - 1).bit_length() for n in (sequences, columns))
            return min(queries, cache.slots), min(max(wide, SHORTEST), cache.columns)
        return sequences, columns


def whole_rounds(columns: int) -> int:
    """Return the next multiple of ROUND."""
    return -(-columns // ROUND) * ROUND


def _prompt_inputs(network: Network, sequences: list[Sequence], read: list[range], n: int) -> torch.Tensor:
    """Return ids (b, n), or embeddings (b, n, E) if any sequence has latent pieces."""
    if all(isinstance(piece, Ids) for each in sequences for piece in each.request.prompt):
        taken = [each.prompt_ids[at.start : at.stop] for each, at in zip(sequences, read, strict=True)]
        return upload([[0] * (n - len(ids)) + list(ids) for ids in taken], network.device)
    latent = [
        embedded(network, each.request.prompt)[at.start : at.stop] for each, at in zip(sequences, read, strict=True)
    ]
    return torch.stack([nn.functional.pad(rows, (0, 0, n - len(rows), 0)) for rows in latent])


def embedded(network: Network, pieces: abc.Sequence[Piece]) -> torch.Tensor:
    """Return a prompt as embeddings (n, E)."""
    table = network.table.rows
    found = [network.embed(upload(p.ids, table.device)) if isinstance(p, Ids) else p.rows.to(table) for p in pieces]
    return torch.cat([rows.to(table) for rows in found])


def _step_inputs(network: Network, sequences: list[Sequence]) -> torch.Tensor:
    """Return ids (b,), or embeddings (b, E) if any sequence feeds a mean."""
    means = {i: each.next_rows[network.table.key] for i, each in enumerate(sequences) if each.next_rows}
    if len(means) == len(sequences):
        return torch.stack(list(means.values()))
    ids = upload([each.next_id for each in sequences], network.device)
    if not means:
        return ids
    inputs = network.embed(ids)
    inputs[upload(list(means), inputs.device)] = torch.stack(list(means.values()))
    return inputs


def changes_of(batch: Batch, n: int) -> abc.Mapping[int, Change]:
    """Return changes of layer outputs (b, n, H) that add the prompts' deltas at their positions, in float32."""
    by_layer: dict[int, list[Addition]] = {}
    for i, (sequence, take) in enumerate(zip(batch.sequences, batch.num_tokens, strict=True)):
        start, end = sequence.filled, sequence.filled + take
        for edit in sequence.request.edits:
            a, b = max(start, edit.at), min(end, edit.at + len(edit.delta))
            if a < b:
                by_layer.setdefault(edit.layer, []).append((i, n - (end - a), edit.delta[a - edit.at : b - edit.at]))
    return {layer: partial(added, additions) for layer, additions in by_layer.items()}


def added(additions: abc.Sequence[Addition], hidden: torch.Tensor) -> torch.Tensor:
    """Return states (b, n, H) with each delta added in float32."""
    hidden = hidden.clone()
    for i, at, delta in additions:
        states = hidden[i, at : at + len(delta)]
        states.copy_(states.float() + delta.to(states.device).float())
    return hidden


def recorded(sequences: list[Sequence], last: int) -> list[int]:
    """Return the layers whose states any sequence records; FINAL stands for the last one after the final norm."""
    found = {layer for each in sequences for layer in each.request.record.layers}
    normed = any(each.request.record.final_norm and last in each.request.record.layers for each in sequences)
    return [*sorted(found), *([FINAL] if normed else [])]
