"""Signs that a message is no language any more: it goes round in circles, or nothing in it is likely.

Read off what is recorded anyway, without another pass. `python -m benchmarks.degenerate` counts how often real and
broken replies show a sign. That a token's log-probability lies below minus the entropy is none: the nearest token of a
mean is near the likeliest, so CIPHER's noise lies above it, as greedy words do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as in payload.py
    import torch

    from sottovoce.channels.payload import Payload

GRAM = 4
"""Tokens of a piece that may come back: shorter ones do in any arithmetic."""
LAST = 64
"""Tokens at the end that are looked at: who gets into a circle stays there."""
WINDOW = 16
"""Tokens in a row; a shorter message shows no sign."""
REPEATED = 0.5
"""Share of pieces that were there before. SmolLM2's sound replies stay below 0.32, its noise is above in most."""
SURPRISE = 5.0
"""Nats a token, as if each were one of 150: SmolLM2's sound replies stay below 4.5, drawn at temperature 1 too."""


def signs(payload: Payload) -> tuple[str, ...]:
    """What is wrong with a message, in a reader's words."""
    shown = {
        "repeats itself": repeated(payload.ids) >= REPEATED,
        "unlikely under the model": surprise(payload) >= SURPRISE,
    }
    return tuple(f"degenerates: {sign}" for sign, found in shown.items() if found)


def repeated(ids: Sequence[int]) -> float:
    """The share of the last pieces of 4 tokens that the message had before; 0 in fewer than 16 tokens."""
    if len(ids) < WINDOW:
        return 0.0
    grams = [tuple(ids[at : at + GRAM]) for at in range(len(ids) - GRAM + 1)]
    first = {gram: at for at, gram in reversed(list(enumerate(grams)))}
    again = [first[gram] < at for at, gram in enumerate(grams)][-LAST:]
    return sum(again) / len(again)


def surprise(payload: Payload) -> float:
    """The largest mean over 16 tokens in a row, nats a token; 0 in fewer.

    Of the tokens' surprise or of what was to be expected, the entropy, whichever is larger: a mean of embeddings sends
    all of a wide distribution, however likely the token that stands for it.
    """
    if len(payload) < WINDOW:
        return 0.0
    return max(_highest(payload.tensors["entropy"]), _highest(-payload.tensors["logprob"]))


def _highest(nats: torch.Tensor) -> float:
    return float(nats.unfold(0, WINDOW, 1).mean(-1).max())
