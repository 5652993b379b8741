"""Signs that a message is no longer language: it repeats itself, or it is unlikely.

They use recorded statistics and need no further pass. A log-probability below the negative entropy is not a sign: the
nearest token of a mean is close to the most likely one, so CIPHER's noise lies above it, as greedy words do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as in payload.py
    import torch

    from sottovoce.channels.payload import Payload

GRAM = 4
"""Length in tokens of the pieces that are compared: shorter ones repeat in any arithmetic."""
LAST = 64
"""Number of last pieces that are examined: a reply that starts to repeat itself does not stop."""
WINDOW = 16
"""Length in tokens of the windows; a shorter message shows no sign."""
REPEATED = 0.5
"""Share of pieces that occurred before. SmolLM2's sound replies stay below 0.32; most of its noise is above."""
SURPRISE = 5.0
"""Nats per token, like a choice of 150 tokens. SmolLM2's sound replies stay below 4.5, also at temperature 1."""


def signs(payload: Payload) -> tuple[str, ...]:
    """Return the signs of degeneration in a message, in words."""
    shown = {
        "repeats itself": repeated(payload.ids) >= REPEATED,
        "unlikely under the model": surprise(payload) >= SURPRISE,
    }
    return tuple(f"degenerates: {sign}" for sign, found in shown.items() if found)


def repeated(ids: Sequence[int]) -> float:
    """Return the share of the last pieces of 4 tokens that occurred before in the message; 0 below 16 tokens."""
    if len(ids) < WINDOW:
        return 0.0
    grams = [tuple(ids[at : at + GRAM]) for at in range(len(ids) - GRAM + 1)]
    first = {gram: at for at, gram in reversed(list(enumerate(grams)))}
    again = [first[gram] < at for at, gram in enumerate(grams)][-LAST:]
    return sum(again) / len(again)


def surprise(payload: Payload) -> float:
    """Return the largest mean over 16 consecutive tokens, in nats per token; 0 below 16 tokens.

    The mean is that of the tokens' surprise or of the entropy, whichever is larger: a mean embedding carries the whole
    distribution, however likely the token that represents it.
    """
    if len(payload) < WINDOW:
        return 0.0
    return max(_highest(payload.tensors["entropy"]), _highest(-payload.tensors["logprob"]))


def _highest(nats: torch.Tensor) -> float:
    return float(nats.unfold(0, WINDOW, 1).mean(-1).max())
