"""What a position of a prompt is, as bytes: equal beginnings of two prompts have equal keys, and so equal caches.

A position is its token id, or the digest of its embedding row, with the digests of the edits that
act on it. Contents are digested, not names: no two different prompts can pass for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import torch

from sottovoce.models.engine.request import Ids, Request

DIGEST = 16  # bytes


def position_keys(request: Request, dtype: torch.dtype) -> list[bytes]:
    """One key for each position of the prompt; rows count as they enter a model that computes in `dtype`."""
    keys: list[bytes] = []
    for piece in request.prompt:
        keys += id_keys(piece.ids) if isinstance(piece, Ids) else row_keys(piece.rows.to(dtype))
    for edit in request.edits:
        layer = edit.layer.to_bytes(2, "big")
        for at, digest in enumerate(row_digests(edit.delta), edit.at):
            keys[at] += b"e" + layer + digest
    return keys


def id_keys(ids: Sequence[int]) -> list[bytes]:
    """Keys of positions that were read as token ids."""
    return [b"i" + id.to_bytes(4, "big") for id in ids]


def row_keys(rows: torch.Tensor) -> list[bytes]:
    """Keys of positions that were read as embedding rows (n, E)."""
    return [b"r" + digest for digest in row_digests(rows)]


def row_digests(rows: torch.Tensor) -> list[bytes]:
    """128 bits of each row (n, w)."""
    words = rows.detach().cpu().contiguous().view(torch.int16).numpy()  # numpy has no bfloat16
    return [blake2b(row.tobytes(), digest_size=DIGEST).digest() for row in words]


def chain(keys: Sequence[bytes], size: int, before: Sequence[bytes] = ()) -> list[bytes]:
    """Digests of the whole blocks of `size` positions, each over all that precedes it.

    `before` are the digests of the first blocks, where they are known.
    """
    digests = list(before)
    last = digests[-1] if digests else b""
    for at in range(len(digests) * size, len(keys) - size + 1, size):
        last = blake2b(last + b"".join(keys[at : at + size]), digest_size=DIGEST).digest()
        digests.append(last)
    return digests
