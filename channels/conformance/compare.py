"""What stands at each position of a prompt, what fits a model, and what is equal to what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import torch

from sottovoce.channels.payload import Payload
from sottovoce.models import Ids, LoadedModel, Reply, Request, tensor_digest

FLOAT32 = 2e-5  # of the largest magnitude: what another order of float32 sums may change (the engine's promise)

Position = tuple[int | str, tuple[tuple[int, str], ...]]
"""A token id or the digest of an embedding row; and by layer the digests of what is added there."""


def positions(request: Request) -> list[Position]:
    """What a model reads at each position of the prompt."""
    read: list[int | str] = []
    for piece in request.prompt:
        read += piece.ids if isinstance(piece, Ids) else [tensor_digest(row) for row in piece.rows]
    added: list[list[tuple[int, str]]] = [[] for _ in read]
    for edit in request.edits:
        for i, row in enumerate(edit.delta):
            added[edit.at + i].append((edit.layer, tensor_digest(row)))
    return [(what, tuple(additions)) for what, additions in zip(read, added, strict=True)]


def of_words(ids: Sequence[int]) -> list[Position]:
    """The positions of tokens with nothing added."""
    return [(id, ()) for id in ids]


def apart(found: Sequence[Position], expected: Sequence[Position]) -> str:
    """Where two prompts part first, in words."""
    for at, (one, other) in enumerate(zip_longest(found, expected)):
        if one != other:
            return f"position {at} (of {len(found)}) holds {_told(one)}; expected (of {len(expected)}) {_told(other)}"
    return "no difference"


def _told(position: Position | None) -> str:
    if position is None:
        return "nothing"
    what, added = position
    additions = "".join(f" with delta {digest[:6]} added at layer {layer}" for layer, digest in added)
    return (f"token {what}" if isinstance(what, int) else f"embedding row {what[:6]}") + additions


def misfit(request: Request, loaded: LoadedModel) -> str | None:
    """What of a request does not fit the model that is to run it, or None."""
    for piece in request.prompt:
        if isinstance(piece, Ids):
            if any(not 0 <= id < len(loaded.table) for id in piece.ids):
                return f"a piece holds ids outside 0 to {len(loaded.table) - 1}: {piece.ids}"
        elif piece.rows.dim() != 2 or piece.rows.shape[1] != loaded.table.width:
            return (
                f"embedding rows have shape {tuple(piece.rows.shape)}; {loaded.name!r} reads (n, {loaded.table.width})"
            )
    for edit in request.edits:
        if edit.delta.dim() != 2 or edit.delta.shape[1] != loaded.network.hidden:
            return f"an edit has shape {tuple(edit.delta.shape)}; {loaded.name!r} takes (n, {loaded.network.hidden})"
        if edit.at < 0 or edit.at + len(edit.delta) > request.length:
            end = edit.at + len(edit.delta)
            return f"an edit covers positions {edit.at} to {end}, but the prompt has {request.length}"
        if not 0 <= edit.layer < loaded.layers:
            return f"an edit names layer {edit.layer}; {loaded.name!r} has layers 0 to {loaded.layers - 1}"
    return None


def misshapen(payload: Payload, loaded: LoadedModel) -> str | None:
    """Which of the tensors whose shape is known by name is not in the model's dtype, one entry a token; or None."""
    n, rows = len(payload), [name for name in payload.tensors if name.startswith("rows.")]
    shapes: dict[str, tuple[int, ...]] = {name: (n, payload.tensors[name].shape[-1]) for name in rows}
    if payload.states is not None:
        shapes["states"] = (len(payload.label.layers), n, loaded.network.hidden)
    for name, shape in shapes.items():
        found = (tuple(payload.tensors[name].shape), payload.tensors[name].dtype)
        if found != (shape, loaded.dtype):
            return f"{name!r} is {found}; expected {(shape, loaded.dtype)}"
    return None


def unlike(found: Reply, expected: Reply) -> str | None:
    """In what two replies differ beyond float32 rounding, or None."""
    if (found.ids, found.finish) != (expected.ids, expected.finish):
        return f"tokens {found.ids} ({found.finish}), expected {expected.ids} ({expected.finish})"
    one, other = _tensors(found), _tensors(expected)
    if one.keys() != other.keys():
        return f"{sorted(one)} were recorded, expected {sorted(other)}"
    return next((f"{name} differs" for name in one if not _close(one[name], other[name])), None)


def _tensors(reply: Reply) -> dict[str, torch.Tensor]:
    tensors = {f"rows of table {key}": rows for key, rows in reply.rows.items()}
    tensors |= {f"states of layer {layer}": states for layer, states in reply.states.items()}
    if reply.stats is not None:
        tensors |= {"logprob": reply.stats.logprob, "entropy": reply.stats.entropy}
    return tensors


def _close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    scale = expected.abs().max().item() if expected.numel() else 0.0
    # Log-probabilities of a sure model are differences of large logits: they keep no more digits than those.
    return bool(torch.allclose(found, expected, rtol=0.0, atol=FLOAT32 * max(scale, 1.0)))
