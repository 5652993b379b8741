"""Validation of requests before they join a batch: length, ranges, shapes."""

from __future__ import annotations

import math

from sottovoce.core.errors import ContextOverflow, UsageError
from sottovoce.models.engine.request import Request, Rows
from sottovoce.models.huggingface.family import unscaled
from sottovoce.models.huggingface.network import Network


def check(request: Request, network: Network) -> None:
    """Refuse a request that cannot run on this network."""
    _length(request, network)
    _values(request)
    _shapes(request, network)


def _length(request: Request, network: Network) -> None:
    need, limit, scaling = request.length + request.stop.max_new, network.context, unscaled(network.model)
    found = f"the prompt has {request.length} tokens and the reply may take {request.stop.max_new}: {need} in all, but"
    remedy = "shorten the prompt or lower max_tokens"
    if limit is not None and need > limit:
        raise ContextOverflow(f"{found} the model reads {limit}; {remedy}")
    if scaling is not None and need > scaling:
        raise ContextOverflow(
            f"{found} past {scaling} this model (longrope) reads all of a batch in another way, "
            f"so that a reply would depend on its neighbours; {remedy}"
        )


def _values(request: Request) -> None:
    sampling, stop, record = request.sampling, request.stop, request.record
    penalty, kind = sampling.repetition_penalty, request.feed.kind
    fits = [
        (request.length >= 1, "the prompt is empty; expected at least one token"),
        (kind in ("token", "mean"), f"feed.kind is {kind!r}; expected 'token' or 'mean'"),
        (stop.by in ("token", "nearest", "argmax"), f"stop.by is {stop.by!r}; expected token, nearest or argmax"),
        (not isinstance(stop.texts, str), f"stop.texts is the text {stop.texts!r}; expected a tuple of strings"),
        ("" not in stop.texts, "a stop string is empty; expected at least one character"),
        (isinstance(stop.max_new, int), f"max_new is {stop.max_new!r}; expected a whole number"),
        (stop.max_new >= 1, f"max_new is {stop.max_new}; expected at least 1"),
        (0 <= sampling.temperature < math.inf, f"temperature is {sampling.temperature}; expected 0 or more"),
        (0 < sampling.top_p <= 1, f"top_p is {sampling.top_p}; expected above 0, at most 1"),
        (sampling.top_k >= 0, f"top_k is {sampling.top_k}; expected 0 (all tokens) or more"),
        (0 < penalty < math.inf, f"repetition_penalty is {penalty}; expected above 0"),
        (0 <= sampling.seed < 2**64, f"seed is {sampling.seed}; expected 0 to 2**64 - 1"),
        (record.top >= 0, f"top is {record.top}; expected 0 or more"),
        (record.sparse >= 0, f"sparse is {record.sparse}; expected 0 or more"),
    ]
    for good, message in fits:
        if not good:
            raise UsageError(message)


def _shapes(request: Request, network: Network) -> None:
    count, hidden, width = len(network.layers), network.hidden, network.table.width
    for layer in {*request.record.layers, *(edit.layer for edit in request.edits)}:
        if not 0 <= layer < count:
            raise UsageError(f"layer {layer} is out of range; the model has layers 0 to {count - 1}")
    for edit in request.edits:
        flat = edit.delta.dim() != 2 or edit.delta.shape[1] != hidden
        if flat or edit.at < 0 or edit.at + len(edit.delta) > request.length:
            raise UsageError(
                f"an edit of shape {tuple(edit.delta.shape)} at position {edit.at} does not fit "
                f"a prompt of {request.length} positions and hidden size {hidden}"
            )
    for piece in request.prompt:
        if isinstance(piece, Rows):
            if piece.rows.dim() != 2 or piece.rows.shape[1] != width:
                raise UsageError(f"embedding rows have shape {tuple(piece.rows.shape)}; expected (n, {width})")
            continue
        for id in (min(piece.ids, default=0), max(piece.ids, default=0)):
            if not 0 <= id < len(network.table):  # on an accelerator it would end the process, not the request
                raise UsageError(f"token id {id} is out of range; the model has ids 0 to {len(network.table) - 1}")
