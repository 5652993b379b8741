"""What a position of a prompt is, as bytes: equal beginnings of two prompts have equal keys, and so equal caches.

A position is its token id, or the digest of its embedding row, with the digests of the edits that
act on it. Contents are digested, not names: no two different prompts can pass for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b

import torch

from sottovoce.models.engine.request import Ids, Request

DIGEST = 16  # bytes of a block's digest


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
    """128 bits of each row (n, w): two sums of its 16-bit words under fixed random odd factors, modulo 2^64.

    A cryptographic digest of each row in turn would cost more than reading a short prompt does.
    """
    if not len(rows):
        return []
    words = rows.detach().contiguous().view(torch.int16).long()  # (n, words)
    sums = [(words * lane.to(words.device)).sum(-1) for lane in _factors(words.shape[-1])]
    return [pair.tobytes() for pair in torch.stack(sums, -1).cpu().numpy()]


@cache
def _factors(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randint(-(2**63), 2**63 - 1, (n,), generator=generator) | 1 for _ in range(2))
    return first, second


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
