"""What the rows of a batch read next, as one reading: prompts of different progress, or one input each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import torch

from sottovoce.models.layers import Change
from sottovoce.models.memory import upload
from sottovoce.models.network import Network
from sottovoce.models.passes import FINAL, Reading
from sottovoce.models.request import Ids
from sottovoce.models.row import Row
from sottovoce.models.slots import Slots

ROUND = 64  # columns that an exact pass looks at are a multiple of it, and so are its beginnings
SHORTEST = 256  # columns of a captured step: to look at a few more costs less than another capture


def prompts(network: Network, slots: Slots, first: int, rows: Sequence[Row], most: int, *, exact: bool) -> Reading:
    """The next positions of prompts, at most `most` a row, of the rows in slots first .. first + b.

    They end together, so that the last query of each is the last of the pass; what a shorter one
    lacks before is padding, which reads id 0 at position 0 and is written to the spare column.
    """
    takes = [min(row.length - row.filled, most) for row in rows]
    n, device = max(takes), network.device
    pads = [n - take for take in takes]
    positions = [[0] * pad + list(range(row.filled, row.filled + n - pad)) for row, pad in zip(rows, pads, strict=True)]
    columns = [[slots.columns] * pad + at[pad:] for at, pad in zip(positions, pads, strict=True)]
    end = max(row.filled + take for row, take in zip(rows, takes, strict=True))
    end = whole_rounds(end) if exact else end
    return Reading(
        _prompt_inputs(network, rows, pads, n),
        upload(positions, device),
        upload(columns, device),
        torch.arange(end, device=device),
        slots.window(first, first + len(rows)),
        plain=not exact and not any(pads) and not any(row.filled for row in rows),
    )


def step(slots: Slots, rows: Sequence[Row], inputs: torch.Tensor, span: torch.Tensor, shape: Shape) -> Reading:
    """One input for each of the rows in slots 0 .. b, ids (b,) or embeddings (b, E); `span` is 0 .. all columns.

    Where the shape has more queries than rows, those beyond them read nothing that counts.
    """
    filled = [row.filled for row in rows]
    queries, end = shape.of(len(rows), max(filled) + 1, slots)
    idle = queries - len(rows)
    if idle:
        inputs = torch.cat([inputs, inputs.new_zeros(idle, *inputs.shape[1:])])
    positions = upload(filled + [0] * idle, span.device)[:, None]
    columns = upload(filled + [slots.columns] * idle, span.device)[:, None] if idle else positions
    plain = shape is Shape.FREE and min(filled) == max(filled)
    return Reading(inputs[:, None], positions, columns, span[:end], slots.window(0, queries), plain)


class Shape(Enum):
    """How many queries a step has, and how many columns it looks at."""

    FREE = "free"
    """As many as there are."""
    EXACT = "exact"
    """A query in every slot, and whole rounds of columns: sums come in one order whatever the company."""
    STEPPED = "stepped"
    """Powers of two: few shapes, so that each can be captured."""

    def of(self, rows: int, columns: int, slots: Slots) -> tuple[int, int]:
        """Queries and columns of a step of so many rows, of which the longest needs so many columns."""
        if self is Shape.EXACT:
            return slots.rows, whole_rounds(columns)
        if self is Shape.STEPPED:
            return min(_power(rows), slots.rows), min(max(_power(columns), SHORTEST), slots.columns)
        return rows, columns


def whole_rounds(columns: int) -> int:
    """The next multiple of a round."""
    return -(-columns // ROUND) * ROUND


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _prompt_inputs(network: Network, rows: Sequence[Row], pads: Sequence[int], n: int) -> torch.Tensor:
    """Ids (b, n), or embeddings (b, n, E) where any row has latent pieces."""
    if all(isinstance(piece, Ids) for row in rows for piece in row.request.prompt):
        taken = [row.prompt_ids[row.filled : row.filled + n - pad] for row, pad in zip(rows, pads, strict=True)]
        return upload([[0] * pad + list(ids) for ids, pad in zip(taken, pads, strict=True)], network.device)
    table = network.table.rows
    inputs = torch.zeros(len(rows), n, table.shape[1], dtype=table.dtype, device=network.device)
    for into, row, pad in zip(inputs, rows, pads, strict=True):
        _embed(network, row, row.filled, into[pad:])
    return inputs


def _embed(network: Network, row: Row, start: int, into: torch.Tensor) -> None:
    """Fill `into` (n, E) with the prompt's positions from `start` on."""
    at, end = 0, start + len(into)
    for piece in row.request.prompt:
        a, b = max(start - at, 0), min(end - at, len(piece))  # the part of the piece that is read
        if a < b:
            target = into[at + a - start : at + b - start]
            if isinstance(piece, Ids):
                target.copy_(network.embed(upload(piece.ids[a:b], into.device)))
            else:
                target.copy_(piece.rows[a:b])
        at += len(piece)


def edits(rows: Sequence[Row], reading: Reading) -> Mapping[int, Change]:
    """Changes of layers' outputs that add the rows' deltas: in float32 at their positions, then cast."""
    n = reading.inputs.shape[1]
    by_layer: dict[int, list[tuple[int, int, torch.Tensor]]] = {}
    for i, row in enumerate(rows):
        end = row.filled + min(row.length - row.filled, n)
        for edit in row.request.edits:
            a, b = max(row.filled, edit.at), min(end, edit.at + len(edit.delta))
            if a < b:
                by_layer.setdefault(edit.layer, []).append((i, n - (end - a), edit.delta[a - edit.at : b - edit.at]))
    return {layer: _adder(additions) for layer, additions in by_layer.items()}


def _adder(additions: Sequence[tuple[int, int, torch.Tensor]]) -> Change:
    def change(hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden.clone()
        for i, at, delta in additions:
            here = hidden[i, at : at + len(delta)]
            here.copy_(here.float() + delta.to(here.device).float())
        return hidden

    return change


def recorded(rows: Sequence[Row], last: int) -> list[int]:
    """The layers whose states some row keeps; FINAL stands for the last one after the final norm."""
    found = {layer for row in rows for layer in row.request.record.layers}
    normed = any(row.request.record.final_norm and last in row.request.record.layers for row in rows)
    return [*sorted(found), *([FINAL] if normed else [])]
