"""The attention of one layer at the last position of a prompt, head by head, as the engine reads the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from sottovoce.core.errors import UsageError
from sottovoce.models.engine.request import Edit, Ids, Piece
from sottovoce.models.engine.runner import Addition, added
from sottovoce.models.loaded import LoadedModel


def attention_of_last(loaded: LoadedModel, pieces: Sequence[Piece], edits: Sequence[Edit], layer: int) -> torch.Tensor:
    """Return the attention weights of the last of n positions over all of them, itself included.

    Shape (heads, n), float32 on the CPU. `edits` are added at their positions; none may be at the last one.
    Negative layers count from the end.

    Raises:
        UsageError: the layer is out of range.
    """
    if not -loaded.layers <= layer < loaded.layers:
        raise UsageError(f"layer {layer} is out of range; {loaded.name!r} has layers 0 to {loaded.layers - 1}")
    additions: dict[int, list[Addition]] = {}
    for edit in edits:
        additions.setdefault(edit.layer, []).append((0, edit.at, edit.delta))
    changes = {at: partial(added, deltas) for at, deltas in additions.items()}
    return loaded.network.attention_of_last(_inputs(loaded, pieces), layer, changes).cpu()


def _inputs(loaded: LoadedModel, pieces: Sequence[Piece]) -> torch.Tensor:
    """Return ids (1, n), or embeddings (1, n, E) if any piece consists of rows."""
    table = loaded.table.rows
    if all(isinstance(piece, Ids) for piece in pieces):
        return torch.tensor([[token for piece in pieces if isinstance(piece, Ids) for token in piece.ids]]).to(
            table.device
        )
    with torch.inference_mode():
        rows = [
            loaded.network.embed(torch.tensor(each.ids, device=table.device)) if isinstance(each, Ids) else each.rows
            for each in pieces
        ]
        return torch.cat([each.to(table) for each in rows])[None]
