"""One pass for the sequences of a batch: chunks of their prompts, or one input each; then what each feeds next."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from sottovoce.models.engine.decode import choose
from sottovoce.models.engine.kv_cache import KVCache
from sottovoce.models.engine.memory import upload
from sottovoce.models.engine.request import Ids
from sottovoce.models.engine.sequence import Choice, Sequence
from sottovoce.models.huggingface.layers import Change
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import FINAL, Reading

ROUND = 64  # columns that an exact pass looks at are a multiple of it, and so are its beginnings
SHORTEST = 256  # columns of a captured step: to look at a few more costs less than another capture


@dataclass(frozen=True)
class Batch:
    """Sequences in neighbouring slots, and what each reads in a pass."""

    sequences: list[Sequence]
    first: int
    """The slot of the first."""
    takes: list[int]
    """Positions: of prompts, or 1 each for those that decode."""
    prompts: bool


@dataclass(frozen=True)
class Made:
    """What came of a pass."""

    states: abc.Mapping[int, torch.Tensor]
    """By layer: the state (b, H) of each sequence's last position."""
    choices: abc.Mapping[int, Choice]
    """By place in the batch; a prompt that is not read to its end has none."""


class Runner:
    """Runs batches on a network; it changes nothing but the KV cache, so that a pass that broke can be made anew."""

    def __init__(self, network: Network, *, exact: bool, slots: int) -> None:
        """`exact`: passes of one shape, `slots` sequences in every step, so that sums come in one order."""
        self._network, self._exact, self._at_least = network, exact, slots if exact else 0

    def run(self, batch: Batch, cache: KVCache) -> Made:
        """Read, and choose for those that have read their prompts."""
        sequences, network = batch.sequences, self._network
        layers = recorded(sequences, len(network.layers) - 1)
        if batch.prompts:
            reading = self._prompts(batch, cache)
            seen = network.forward(reading, layers, edits(batch, reading.inputs.shape[1]))
        else:
            seen = network.step(self._step(sequences, cache), layers)
        done = [
            i for i, (each, n) in enumerate(zip(sequences, batch.takes, strict=True)) if each.filled + n >= each.length
        ]
        if not done:
            return Made(seen.states, {})
        logits = seen.logits[: len(sequences)] if len(done) == len(sequences) else seen.logits[done]
        choices = choose(network.table, [sequences[i] for i in done], logits, self._at_least)
        return Made(seen.states, dict(zip(done, choices, strict=True)))

    def _prompts(self, batch: Batch, cache: KVCache) -> Reading:
        """The next positions of prompts.

        They end together, so that the last query of each is the last of the pass; what a shorter one
        lacks before is padding, which reads id 0 at position 0 and is written to the spare column.
        """
        sequences, n, device = batch.sequences, max(batch.takes), self._network.device
        read = [range(each.filled, each.filled + take) for each, take in zip(sequences, batch.takes, strict=True)]
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
        """One input for each of the sequences in slots 0 .. b.

        Where there are more queries than sequences, those beyond them read nothing that counts.
        """
        filled, device = [each.filled for each in sequences], self._network.device
        queries, end = self._shape(len(sequences), max(filled) + 1, cache)
        inputs, idle = _step_inputs(self._network, sequences), queries - len(sequences)
        if idle:
            inputs = torch.cat([inputs, inputs.new_zeros(idle, *inputs.shape[1:])])
        positions = upload(filled + [0] * idle, device)[:, None]
        columns = upload(filled + [cache.columns] * idle, device)[:, None] if idle else positions
        plain = not self._exact and not self._network.captures and min(filled) == max(filled)
        return Reading(
            inputs[:, None], positions, columns, torch.arange(end, device=device), cache.window(0, queries), plain
        )

    def _shape(self, sequences: int, columns: int, cache: KVCache) -> tuple[int, int]:
        """Queries and columns of a step of so many sequences, of which the longest needs so many columns."""
        if self._exact:  # a query in every slot, whole rounds of columns: sums come in one order whatever the batch
            return cache.slots, whole_rounds(columns)
        if self._network.captures:  # powers of two: few shapes, so that each can be captured
            queries, wide = (1 << (n - 1).bit_length() for n in (sequences, columns))
            return min(queries, cache.slots), min(max(wide, SHORTEST), cache.columns)
        return sequences, columns


def whole_rounds(columns: int) -> int:
    """The next multiple of a round."""
    return -(-columns // ROUND) * ROUND


def _prompt_inputs(network: Network, sequences: list[Sequence], read: list[range], n: int) -> torch.Tensor:
    """Ids (b, n), or embeddings (b, n, E) where any sequence has latent pieces."""
    if all(isinstance(piece, Ids) for each in sequences for piece in each.request.prompt):
        taken = [each.prompt_ids[at.start : at.stop] for each, at in zip(sequences, read, strict=True)]
        return upload([[0] * (n - len(ids)) + list(ids) for ids in taken], network.device)
    latent = [_embedded(network, each)[at.start : at.stop] for each, at in zip(sequences, read, strict=True)]
    return torch.stack([nn.functional.pad(rows, (0, 0, n - len(rows), 0)) for rows in latent])


def _embedded(network: Network, sequence: Sequence) -> torch.Tensor:
    """A prompt as embeddings (n, E)."""
    table, pieces = network.table.rows, sequence.request.prompt
    found = [network.embed(upload(p.ids, table.device)) if isinstance(p, Ids) else p.rows.to(table) for p in pieces]
    return torch.cat([rows.to(table) for rows in found])


def _step_inputs(network: Network, sequences: list[Sequence]) -> torch.Tensor:
    """Ids (b,), or embeddings (b, E) where any sequence feeds a mean."""
    means = {i: each.next_rows[network.table.key] for i, each in enumerate(sequences) if each.next_rows}
    if len(means) == len(sequences):
        return torch.stack(list(means.values()))
    ids = upload([each.next_id for each in sequences], network.device)
    if not means:
        return ids
    inputs = network.embed(ids)
    inputs[upload(list(means), inputs.device)] = torch.stack(list(means.values()))
    return inputs


def edits(batch: Batch, n: int) -> abc.Mapping[int, Change]:
    """Changes of layers' outputs (b, n, H) that add the prompts' deltas: in float32 at their positions, then cast."""
    by_layer: dict[int, list[tuple[int, int, torch.Tensor]]] = {}
    for i, (sequence, take) in enumerate(zip(batch.sequences, batch.takes, strict=True)):
        start, end = sequence.filled, sequence.filled + take
        for edit in sequence.request.edits:
            a, b = max(start, edit.at), min(end, edit.at + len(edit.delta))
            if a < b:
                by_layer.setdefault(edit.layer, []).append((i, n - (end - a), edit.delta[a - edit.at : b - edit.at]))
    return {layer: partial(_added, additions) for layer, additions in by_layer.items()}


def _added(additions: abc.Sequence[tuple[int, int, torch.Tensor]], hidden: torch.Tensor) -> torch.Tensor:
    hidden = hidden.clone()
    for i, at, delta in additions:
        here = hidden[i, at : at + len(delta)]
        here.copy_(here.float() + delta.to(here.device).float())
    return hidden


def recorded(sequences: list[Sequence], last: int) -> list[int]:
    """The layers whose states some sequence keeps; FINAL stands for the last one after the final norm."""
    found = {layer for each in sequences for layer in each.request.record.layers}
    normed = any(each.request.record.final_norm and last in each.request.record.layers for each in sequences)
    return [*sorted(found), *([FINAL] if normed else [])]
