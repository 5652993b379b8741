"""Tolerances of a re-run: whether another order of floating-point sums explains a difference."""

from __future__ import annotations

from sottovoce.channels.compress import KEPT, is_carried
from sottovoce.channels.message import Message
from sottovoce.channels.payload import COMPRESSED, Payload
from sottovoce.models.doctor.selftest import TOLERANCE
from sottovoce.verify.findings import Finding, Where

HALF = "bfloat16"


def parted(had: Payload, made: Payload, message: Message, form: str, where: Where) -> tuple[Finding | None, str]:
    """Return a finding, or a note if the first tokens that differ are level: another order of sums explains that."""
    i = next((i for i, (a, b) in enumerate(zip(had.ids, made.ids, strict=False)) if a != b), min(len(had), len(made)))
    margin = _margin(had, i)
    drawn = message.stats.get("temperature", 0.0) > 0 and message.payload and message.payload.protocol != "cipher"
    if margin is not None and not drawn and margin <= _allowed(had, i, form):
        return None, f"{', '.join(where)}: re-run, it differs from token {i + 1} on, where the margin was {margin:.1e}"
    told = "" if margin is None else f" (margin {margin:.2g} nats)"
    found, expected = (each.ids[i] if i < len(each) else "the end" for each in (had, made))
    return Finding(f"token {i + 1}{told}, re-run", found, expected, where), ""


def apart(had: Payload, made: Payload, form: str) -> str:
    """Return how a tensor of equal tokens differs by more than another order of sums explains; "" if none does."""
    if missing := had.tensors.keys() ^ made.tensors.keys():
        return f"only one of them has the tensor {min(missing)}"
    for name, tensor in sorted(had.tensors.items()):
        if name == "top_ids" or _rounded(name, had):  # level tokens may swap
            continue
        other = made.tensors[name]
        if tensor.shape != other.shape:
            return f"{name} has shape {tuple(tensor.shape)}, not {tuple(other.shape)}"
        scale = max(1.0, float(other.abs().max()) if other.numel() else 0.0)
        off = float((tensor.double() - other.double()).abs().max()) if other.numel() else 0.0
        if off > ROOM * _of(form) * scale:
            return f"{name} differs by {off:.2g} of {scale:.2g}"
    return ""


def _rounded(name: str, payload: Payload) -> bool:
    """Return whether a tensor is stored compressed: a step of int8 or the sign of a factor may then differ."""
    return payload.label.format == COMPRESSED and (name == KEPT or is_carried(name))


ROOM = 50
"""Multiple of the logits' tolerance: errors grow through a reply, and higher moments of a distribution raise them."""


def _margin(payload: Payload, i: int) -> float | None:
    """Return the margin between the two most probable tokens at a position, in nats; None if it is not stored."""
    top = payload.tensors.get("top_logprobs")
    if top is None or i >= len(top) or top.shape[-1] < 2:
        return None
    return float(top[i, 0] - top[i, 1])


def _allowed(payload: Payload, i: int, form: str) -> float:
    """Return the largest margin of level tokens: each may be off by the tolerance of the format (`models.doctor`)."""
    return 2 * _of(form) * max(1.0, float(payload.tensors["top_logprobs"][i].abs().max()))


def _of(form: str) -> float:
    return TOLERANCE.get(form, TOLERANCE[HALF])
