"""Channel probes, which replace the payload of a heard message to measure its effect (docs/howto/probes.md).

Ids, text and statistics stay unchanged. Random numbers depend on the run's seed, the question and the message's place,
never on the bytes of the payload, which rounding may change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from sottovoce.channels.compress import is_carried, vectors
from sottovoce.channels.options import FROM_A_RUN, Probe
from sottovoce.channels.payload import Payload
from sottovoce.core.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.models import LoadedModel

CARRIED = ("states", "rows", "sparse", "kept")
"""Tensors other than words and statistics, by the first part of their names."""
HANDED = ("keys", "values", "inputs", "first_keys", "first_values", "state")
"""Tensors that do not belong to the tokens of a message."""
PLACES = ("at", "masked", "text", "characters")
"""Tensors that say where these stand."""


def probed(
    payload: Payload, loaded: LoadedModel, probe: Probe, *, seed: str, substitutes: Sequence[Payload], part: bool
) -> Payload:
    """Return the payload that `loaded` reads under a probe other than none; of `part` of a message, at its length.

    Raises:
        UsageError: there is nothing to replace, or no donor of the same kind.
    """
    words = {name: tensor for name, tensor in payload.tensors.items() if name.partition(".")[0] not in CARRIED}
    if payload.positions is not None:
        return _handed(payload, probe, seed, [_of_the_same_kind(payload, donor, loaded) for donor in substitutes])
    states, rows = payload.states, payload.rows_over(loaded.table)
    if states is None and rows is None:
        raise UsageError(f"protocol {payload.label.protocol!r} carries neither rows nor states; it has no probes")
    others = [_of_the_same_kind(payload, donor, loaded) for donor in substitutes]
    if probe in ("shuffled", "noise_cov") and not others:
        raise UsageError(f"probe {probe!r} found no donor for a message; run a whole discussion with `probe_from=`")
    if probe == "shuffled":
        donated, donor_rows = others[0].states, others[0].rows_over(loaded.table)
        if states is not None and donated is not None:
            return Payload(payload.label, {**words, "states": common(donated, len(payload))})
        if not part or donor_rows is None or not len(donor_rows):
            return others[0]
        repeated = donor_rows[torch.arange(len(payload)) % len(donor_rows)]
        return Payload(payload.label, {**words, f"rows.{loaded.table.key}": repeated})
    chance, found = _chance(seed), dict(words)
    if states is not None and probe.startswith("noise"):
        samples = [each.states for each in others if each.states is not None]
        found["states"] = _where_kept(payload, _noise(states, samples, others, chance), states)
    if rows is not None and probe != "text":
        if probe == "zeroed":
            other = loaded.table.centre.expand(len(payload), -1).cpu()
        else:
            samples = [each for donor in others if (each := donor.rows_over(loaded.table)) is not None]
            other = _noise(rows, samples, others, chance)
        found[f"rows.{loaded.table.key}"] = _where_kept(payload, other, rows)
    return Payload(payload.label, found)


def _handed(payload: Payload, probe: Probe, seed: str, others: Sequence[Payload]) -> Payload:
    """Return a payload with other keys and values, or another state: a donor's, noise, or none at all."""
    names = [name for name in HANDED if vectors(payload.tensors, name) is not None]
    words = {name: tensor for name, tensor in payload.tensors.items() if not is_carried(name) and name not in PLACES}
    if probe in ("zeroed", "text"):
        return Payload(payload.label, words)
    if probe in FROM_A_RUN and not others:
        raise UsageError(f"probe {probe!r} found no donor for a message; run a whole discussion with `probe_from=`")
    if probe == "shuffled":
        handed = {name: each for name, each in others[0].tensors.items() if is_carried(name) or name in PLACES}
        return Payload(payload.label, {**words, **handed})
    chance, found = _chance(seed), {name: payload.tensors[name] for name in PLACES if name in payload.tensors}
    for name in names:
        own = vectors(payload.tensors, name)
        samples = [each for donor in others if (each := vectors(donor.tensors, name)) is not None]
        assert own is not None, "it is among the names"
        found[name] = noise_like(own, torch.cat(samples, dim=-2), chance) if samples else noise(own, chance)
    return Payload(payload.label, {**words, **found})


def _chance(seed: str) -> torch.Generator:
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big"))


def noise(like: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Return Gaussian vectors (..., H) with the norms and the dtype of the vectors that they replace."""
    drawn = torch.randn(like.shape, generator=chance)  # the same noise on every device
    return _at_norm(drawn, like)


def noise_like(vectors: torch.Tensor, samples: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Return Gaussian vectors (..., n, H) with mean and covariance of `samples` (..., m, H), at the norms of `vectors`.

    Sums of the samples with Gaussian weights have their covariance without the matrix (H, H).
    """
    if vectors.dim() > 2:
        return torch.stack([noise_like(one, other, chance) for one, other in zip(vectors, samples, strict=True)])
    known = samples.float().cpu()
    mean = known.mean(0)
    weights = torch.randn(len(vectors), len(known), generator=chance) / max(1, len(known) - 1) ** 0.5
    return _at_norm(mean + weights @ (known - mean), vectors)


def common(states: torch.Tensor, n: int) -> torch.Tensor:
    """Return a donor's states (L, m, H) for n tokens: its first n states, then zeros beyond its end."""
    return torch.nn.functional.pad(states[:, :n], (0, 0, 0, max(0, n - states.shape[1])))


def _noise(
    vectors: torch.Tensor, samples: Sequence[torch.Tensor], substitutes: Sequence[Payload], chance: torch.Generator
) -> torch.Tensor:
    if not substitutes:
        return noise(vectors, chance)
    pairs = zip(samples, substitutes, strict=True)
    kept = [each if donor.carrying is None else each[..., donor.carrying, :] for each, donor in pairs]
    return noise_like(vectors, torch.cat(kept, dim=-2), chance)


def _at_norm(drawn: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    norms: torch.Tensor = vectors.float().norm(dim=-1, keepdim=True)
    lengths: torch.Tensor = drawn.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
    return (drawn.to(vectors.device) * (norms / lengths.to(vectors.device))).to(vectors.dtype)


def _where_kept(payload: Payload, vectors: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """Return the other vectors (..., n, H); tokens that are heard as words keep their own vectors."""
    if payload.carrying is None:
        return vectors
    whole = own.clone()
    whole[..., payload.carrying, :] = vectors[..., payload.carrying, :].to(own)
    return whole


def _of_the_same_kind(payload: Payload, donor: Payload, loaded: LoadedModel) -> Payload:
    """Return the donor after checking that it fits.

    Raises:
        UsageError: it does not fit this payload.
        PayloadError: it does not fit the model.
    """
    donor.check_for(loaded)
    for name in ("protocol", "weights", "layers"):
        mine, other = getattr(payload.label, name), getattr(donor.label, name)
        if mine != other:
            raise UsageError(
                f"the donor's {name} is {other!r}, the message's {mine!r}; use payloads of a run with the same {name}"
            )
    if payload.positions is None and payload.states is None and donor.rows_over(loaded.table) is None:
        said = donor.label
        raise UsageError(f"the donor {said.text!r} of {said.model!r} has no embedding that {loaded.name!r} reads")
    return donor
