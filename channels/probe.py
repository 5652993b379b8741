"""Channel probes: what a heard message carries beside words is replaced, to see whether it matters.

`shuffled`: the same speaker's payload of another question. States are cut or padded with zeros to the
message's length; rows are drawn anew from the donor's, in its order, and never one of an end of sequence.
`zeroed`: no states; rows are the mean of the table. `noise`: for each token (and layer) a Gaussian vector
of equal norm. `text`: nothing but the tokens, which are the nearest ones of rows.

Ids, text and statistics stay as they are. Chance derives from the message, so that a run repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from sottovoce.channels.options import Probe
from sottovoce.channels.payload import Payload
from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.models import LoadedModel

CARRIED = ("states", "rows", "sparse", "kept")
"""Tensors by the first part of their names that hold more than words and statistics."""


def probed(payload: Payload, loaded: LoadedModel, probe: Probe, *, seed: str, donor: Payload | None = None) -> Payload:
    """The payload as `loaded` reads it under a probe other than none; `seed` (hex) is its address.

    Raises:
        UsageError: there is nothing to replace, or no donor of the same kind.
    """
    words = {name: tensor for name, tensor in payload.tensors.items() if name.partition(".")[0] not in CARRIED}
    states, rows = payload.states, payload.rows_over(loaded.table)
    if states is None and rows is None:
        raise UsageError(f"protocol {payload.label.protocol!r} carries neither rows nor states; it has no probes")
    chance, found = torch.Generator().manual_seed(int(seed[:15], 16)), dict(words)
    if states is not None and probe in ("shuffled", "noise"):
        other = noise(states, chance) if probe == "noise" else _donated_states(payload, donor)
        found["states"] = _where_kept(payload, other, states)
    if rows is not None and probe != "text":
        other = {
            "noise": lambda: noise(rows, chance),
            "zeroed": lambda: loaded.table.centre.expand(len(payload), -1).cpu(),
            "shuffled": lambda: _donated_rows(payload, donor, loaded, chance),
        }[probe]()
        found[f"rows.{loaded.table.key}"] = _where_kept(payload, other, rows)
    return Payload(payload.label, found)


def _where_kept(payload: Payload, other: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """The other vectors (..., n, H), but the own ones at tokens that carry nothing and are heard as words."""
    if payload.kept is None:
        return other
    whole = own.clone()
    whole[..., payload.kept, :] = other[..., payload.kept, :].to(own)
    return whole


def noise(vectors: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Gaussian directions (..., H) with the norms of the vectors that they replace, in their dtype."""
    drawn = torch.randn(vectors.shape, generator=chance).to(vectors.device)  # the same noise on every device
    norms: torch.Tensor = vectors.float().norm(dim=-1, keepdim=True)
    lengths: torch.Tensor = drawn.norm(dim=-1, keepdim=True)
    return (drawn * (norms / lengths)).to(vectors.dtype)


def fitted(states: torch.Tensor, n: int) -> torch.Tensor:
    """States (L, m, H) cut, or padded with zeros, to n tokens."""
    return torch.nn.functional.pad(states[:, :n], (0, 0, 0, max(0, n - states.shape[1])))


def resampled(rows: torch.Tensor, n: int, chance: torch.Generator) -> torch.Tensor:
    """So many of the rows (m, E), drawn with replacement, in their order."""
    return rows[torch.randint(len(rows), (n,), generator=chance).sort().values]


def _donated_states(payload: Payload, donor: Payload | None) -> torch.Tensor:
    states = _of_the_same_kind(payload, donor).states
    assert states is not None, "a payload of the same protocol and layers"
    return fitted(states, len(payload))


def _donated_rows(
    payload: Payload, donor: Payload | None, loaded: LoadedModel, chance: torch.Generator
) -> torch.Tensor:
    same = _of_the_same_kind(payload, donor)
    rows, ends = same.rows_over(loaded.table), {*loaded.stop_ids, loaded.eos}
    said = [at for at, id in enumerate(same.ids) if id not in ends]
    if rows is None or not said:
        raise UsageError(f"the donor {same.label.text!r} of {same.label.model!r} has no row that {loaded.name!r} reads")
    return resampled(rows[said], len(payload), chance)


def _of_the_same_kind(payload: Payload, donor: Payload | None) -> Payload:
    """The donor, if it is one for this payload."""
    if donor is None:
        raise UsageError("probe 'shuffled' found no donor beside a message; hold a whole discussion with --probe-from")
    for what in ("protocol", "weights", "layers"):
        mine, other = getattr(payload.label, what), getattr(donor.label, what)
        if mine != other:
            raise UsageError(
                f"the donor's {what} is {other!r}, the message's {mine!r}; take the payloads of a like run"
            )
    return donor
