"""What is carried, in fewer bytes: the most uncertain tokens, a low rank, fewer bits (future work in SDE; ours).

A tensor NAME (..., n, H), `states` or `rows.KEY`, is stored in the place of itself as

    kept (k,)                              the tokens whose vectors are carried; all others are heard as words
    NAME.left (..., k, r), NAME.right (..., r, H)   factors of rank r (a truncated SVD for each layer)
    NAME.scale (..., k)                    of NAME in int8: a row is q * scale, off by at most half of `scale`

each only where asked for, in this order; factors are stored in the dtype asked for, with a scale each. Payloads read
decode it: `Payload.states`, `Payload.rows`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sottovoce.channels.options import Carry, LatentOptions

if TYPE_CHECKING:
    import torch

KEPT = "kept"
FACTORS = (".left", ".right")
SCALE = ".scale"
BESIDE = (KEPT, "bridged")
"""What is carried besides and is no tensor to compress, by the first part of its name."""
LARGEST = 127
Tensors = Mapping[str, "torch.Tensor"]


def compressed(carried: Tensors, entropy: torch.Tensor, options: LatentOptions) -> dict[str, torch.Tensor]:
    """The tensors that are stored in the place of those carried; `entropy` (n,) tells which tokens are uncertain."""
    found = dict(carried)
    names = [name for name in carried if is_carried(name)]
    if options.keep < 1:
        found[KEPT] = uncertain(entropy, options.keep)
        found |= {name: carried[name][..., found[KEPT], :] for name in names}
    for name in names:
        found |= _encoded(name, found.pop(name), options)
    return found


def is_carried(name: str) -> bool:
    """Whether a tensor is one that hearers read beside words, or a part of one."""
    return name.partition(".")[0] in ("states", "rows")


def carried_names(tensors: Tensors) -> list[str]:
    """`states` and `rows.KEY`, as far as they are there, whole or in parts."""
    return sorted({".".join(name.split(".")[: 1 + name.startswith("rows.")]) for name in tensors if is_carried(name)})


def uncertain(entropy: torch.Tensor, share: float) -> torch.Tensor:
    """The places (k,), ascending, of that share of tokens, rounded up, with the highest entropy; the first on ties."""
    many = math.ceil(round(share * len(entropy), 6))
    return entropy.sort(descending=True, stable=True).indices[:many].sort().values


def vectors(tensors: Tensors, name: str) -> torch.Tensor | None:
    """A tensor as it is stored for its kept tokens, decoded; None where there is none."""
    if name in tensors:
        return _plain(tensors, name)
    if name + FACTORS[0] not in tensors:
        return None
    left, right = (_plain(tensors, name + factor).double() for factor in FACTORS)  # double: see `_factors`
    return (left @ right).float()


def placed(found: torch.Tensor, tensors: Tensors, around: torch.Tensor | None = None) -> torch.Tensor:
    """(..., n, H): the vectors of kept tokens at their places, and `around` (n, H), or zeros, at the others."""
    if KEPT not in tensors:
        return found
    shape = (*found.shape[:-2], len(tensors["ids"]), found.shape[-1])
    whole = found.new_zeros(shape) if around is None else around.to(found).expand(shape).clone()
    whole[..., tensors[KEPT], :] = found
    return whole


def nbytes(tensors: Tensors) -> int:
    """Bytes of what is carried beside words and statistics, over a bridge too, the places of kept tokens included."""
    return sum(each.nbytes for name, each in tensors.items() if is_carried(name) or name.partition(".")[0] in BESIDE)


def _encoded(name: str, whole: torch.Tensor, options: LatentOptions) -> dict[str, torch.Tensor]:
    n, width = whole.shape[-2:]
    if options.rank is None or options.rank * (n + width) >= n * width:  # factors would be no smaller
        return _stored(name, whole, options.carry_as)
    left, right = (each.to(whole.dtype) for each in _factors(whole, options.rank))
    return _stored(name + FACTORS[0], left, options.carry_as) | _stored(name + FACTORS[1], right, options.carry_as)


def _factors(whole: torch.Tensor, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(..., n, r) and (..., r, H): the product nearest to the whole; both share the singular values evenly."""
    import torch

    # In double: LAPACK's last bits differ from call to call, and `exact` promises the same bits in every run.
    u, sizes, v = torch.linalg.svd(whole.double(), full_matrices=False)
    root = sizes[..., :rank].sqrt()
    return (u[..., :rank] * root[..., None, :]).float(), (root[..., None] * v[..., :rank, :]).float()


def _stored(name: str, whole: torch.Tensor, carry: Carry) -> dict[str, torch.Tensor]:
    import torch

    if carry != "int8":
        return {name: whole if carry == "model" else whole.bfloat16()}
    scale = whole.float().abs().amax(-1) / LARGEST
    steps = (whole.float() / scale.clamp_min(torch.finfo(scale.dtype).tiny)[..., None]).round()
    return {name: steps.to(torch.int8), name + SCALE: scale}


def _plain(tensors: Tensors, name: str) -> torch.Tensor:
    scale = tensors.get(name + SCALE)
    return tensors[name] if scale is None else tensors[name].float() * scale[..., None]
