"""Compression of payloads: the most uncertain tokens only, fewer bits (our own; future work in SDE).

A tensor NAME (..., n, H), `states` or `rows.KEY`, is replaced by

    kept (k,)              the tokens whose vectors are carried; all others are read as words
    NAME.scale (..., k)    the scale of NAME in int8: a row is q * scale, off by at most scale / 2

Each replacement is optional. Payloads decode them when read: `Payload.states`, `Payload.rows`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sottovoce.channels.options import LatentOptions

if TYPE_CHECKING:
    import torch

KEPT = "kept"
SCALE = ".scale"
CARRIED = ("states", "rows", "keys", "values", "inputs", "first_keys", "first_values", "state")
"""Carried tensors, by the first part of their names."""
UNCOMPRESSED = (KEPT, "bridged")
"""Carried tensors that are not compressed, by the first part of their names."""
LARGEST = 127
Tensors = Mapping[str, "torch.Tensor"]


def compressed(carried: Tensors, entropy: torch.Tensor, options: LatentOptions) -> dict[str, torch.Tensor]:
    """Return the compressed tensors to store; `entropy` (n,) selects the most uncertain tokens."""
    import torch

    tensors = dict(carried)
    names = [name for name in carried if is_carried(name)]
    if options.kept_share < 1:
        tensors[KEPT] = uncertain(entropy, options.kept_share)
        tensors |= {name: carried[name][..., tensors[KEPT], :] for name in names}
    for name in names:
        tensor = tensors.pop(name)
        if options.carry_as == "int8":
            scale = tensor.float().abs().amax(-1) / LARGEST
            steps = (tensor.float() / scale.clamp_min(torch.finfo(scale.dtype).tiny)[..., None]).round()
            tensors |= {name: steps.to(torch.int8), name + SCALE: scale}
        else:
            tensors[name] = tensor if options.carry_as == "model" else tensor.bfloat16()
    return tensors


def is_carried(name: str) -> bool:
    """Return True for the name of a tensor that is read in addition to the words, or of a part of such a tensor."""
    return name.partition(".")[0] in CARRIED


def uncertain(entropy: torch.Tensor, share: float) -> torch.Tensor:
    """Return the places (k,), ascending, of the share of tokens (rounded up) with the highest entropy; ties: first."""
    many = math.ceil(round(share * len(entropy), 6))
    return entropy.sort(descending=True, stable=True).indices[:many].sort().values


def vectors(tensors: Tensors, name: str) -> torch.Tensor | None:
    """Return a decoded tensor, for its kept tokens, or None if it does not exist."""
    if name not in tensors:
        return None
    scale = tensors.get(name + SCALE)
    return tensors[name] if scale is None else tensors[name].float() * scale[..., None]


def placed(vectors: torch.Tensor, tensors: Tensors, around: torch.Tensor | None = None) -> torch.Tensor:
    """Return (..., n, H): the vectors of kept tokens at their places, and `around` (n, H) or zeros elsewhere."""
    if KEPT not in tensors:
        return vectors
    shape = (*vectors.shape[:-2], len(tensors["ids"]), vectors.shape[-1])
    all_tokens = vectors.new_zeros(shape) if around is None else around.to(vectors).expand(shape).clone()
    all_tokens[..., tensors[KEPT], :] = vectors
    return all_tokens


def nbytes(tensors: Tensors) -> int:
    """Return the bytes carried besides words and statistics, including CIPHER's rows and the places of kept tokens."""
    counted = (*CARRIED, *UNCOMPRESSED)
    return sum(tensor.nbytes for name, tensor in tensors.items() if name.partition(".")[0] in counted)
