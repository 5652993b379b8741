"""The layers that kv hands over, and the corresponding layers of a reader of another depth (KVComm)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch

from sottovoce.channels.message import Turn
from sottovoce.channels.options import COMPAT, Compat
from sottovoce.core.errors import ProtocolError
from sottovoce.models import LoadedModel
from sottovoce.models.huggingface.network import Network

SIGMA = 10.0  # layers; as in the paper's code
KNOWN = "Lena Holm lives in Alder Ford. She sells bread on the market there, and her brother Emil keeps two boats."
ASKED = "Where does Lena Holm sell her bread?"
"""The calibration question. It is the same for all questions, so that a run does not depend on their order."""
_calibrations: WeakKeyDictionary[Network, dict[bool, torch.Tensor]] = WeakKeyDictionary()


def chosen_layers(loaded: LoadedModel, share: float, alpha: float, rules: Compat = COMPAT["paper"]) -> tuple[int, ...]:
    """Return the layers that are handed over, ascending: the best share of them, rounded down, and always layer 0.

    `alpha` weighs the importance, and 1 - alpha the Gaussian; at 0 no calibration is made. Of layers with equal scores,
    such as two at equal distances from the middle, the first is better, or with `compat` "reference" the last.
    """
    if share == 1:
        return tuple(range(loaded.layers))
    importance = calibrated(loaded, masks_hide=rules.masks_hide) if alpha else torch.zeros(loaded.layers)
    scores = layer_scores(importance, alpha)
    order = scores.sort(descending=True, stable=True) if rules.ties == "first" else scores.sort(stable=True)
    best = order.indices if rules.ties == "first" else order.indices.flip(0)
    return tuple(sorted({0, *best[: math.floor(round(share * loaded.layers, 6))].tolist()}))


def layer_scores(importance: torch.Tensor, alpha: float) -> torch.Tensor:
    """Return the scores (L,) of layers from their importance (L,). Both parts are scaled to 0 .. 1."""
    depth = torch.arange(len(importance), dtype=torch.float64)
    gaussian = torch.exp(-((depth - 0.5 * (len(importance) - 1)) ** 2) / (2 * SIGMA**2))
    return alpha * _scaled(importance.double()) + (1 - alpha) * _scaled(gaussian)


def importance_of(attentions: Sequence[torch.Tensor], sent: int) -> torch.Tensor:
    """Return the importance (L,) of layers from attention weights (heads, n, n) of a sequence.

    It is the mean over heads and over queries behind the first `sent` positions of their attention to positions
    1 .. sent - 1; the first one, an attention sink, is left out.
    """
    return torch.stack([weights[:, sent:, 1:sent].sum(-1).mean() for weights in attentions])


def calibrated(loaded: LoadedModel, *, masks_hide: bool = True) -> torch.Tensor:
    """Return the importance of a model's layers on the calibration question, measured once; see `Compat.masks_hide`."""
    network = loaded.network
    known = _calibrations.setdefault(network, {})
    if masks_hide not in known:
        sent, asked = (_ids(loaded, text) for text in (KNOWN, ASKED))
        attentions = network.attentions([*sent, *asked], masks_hide=masks_hide)
        known[masks_hide] = importance_of(attentions, len(sent)).cpu()
    return known[masks_hide]


def layer_of(layer: int, speaker: int, hearer: int) -> int:
    """Return the layer of a hearer with that many layers that corresponds to a speaker's layer (KVComm)."""
    return min(max(round((layer + 0.5) * hearer / speaker - 0.5), 0), hearer - 1)


def meeting(speaker: int, hearer: int) -> list[list[int]]:
    """Return for each layer of the hearer the speaker's corresponding layers. The arguments are numbers of layers."""
    return [[a for a in range(speaker) if layer_of(a, speaker, hearer) == b] for b in range(hearer)]


def check_meeting(layers: Sequence[int], speaker: LoadedModel, hearer: LoadedModel) -> None:
    """Refuse depths at which KVComm's published code fails: its mask has the columns of the hearer's first layer."""
    met = meeting(speaker.layers, hearer.layers)
    sizes = [(sum(a in layers for a in each), len(each)) for each in met]  # whole layers, and all
    if max(sizes) > sizes[0] or not met[0]:
        raise ProtocolError(
            f"with {speaker.layers} layers of {speaker.name!r} and {hearer.layers} of {hearer.name!r}, KVComm's "
            "published code fails: a later layer gets more positions than the first, or the first gets none",
            "use compat paper, or models of equal depth",
        )


def _scaled(values: torch.Tensor) -> torch.Tensor:
    apart = values.max() - values.min()
    return (values - values.min()) / apart if apart > 0 else torch.zeros_like(values)


def _ids(loaded: LoadedModel, text: str) -> list[int]:
    pieces = loaded.chat.encode([Turn("user", (text,))])
    return [id for piece in pieces if isinstance(piece, tuple) for id in piece]
