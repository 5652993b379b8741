"""The choice of layers whose keys and values are handed over, and their places in a model of another depth.

KVComm (arXiv 2510.03346): the importance of a layer is the attention from one calibration question to the text before
it, here in the sender's model, mixed with a Gaussian over the depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch

from sottovoce.channels.message import Turn
from sottovoce.models import LoadedModel
from sottovoce.models.huggingface.network import Network

SIGMA = 10.0  # layers; as in the paper's code
KNOWN = "Lena Holm lives in Alder Ford. She sells bread on the market there, and her brother Emil keeps two boats."
ASKED = "Where does Lena Holm sell her bread?"
"""The calibration question. It is the same for all questions, so that a run does not depend on their order."""
_calibrations: WeakKeyDictionary[Network, torch.Tensor] = WeakKeyDictionary()


def chosen_layers(loaded: LoadedModel, share: float, alpha: float) -> tuple[int, ...]:
    """Return the layers that are handed over, ascending: the best share of them, rounded down, and always layer 0.

    `alpha` weighs the importance, and 1 - alpha the Gaussian; at 0 no calibration is made.
    """
    if share == 1:
        return tuple(range(loaded.layers))
    importance = calibrated(loaded) if alpha else torch.zeros(loaded.layers)
    scores = layer_scores(importance, alpha)
    best = scores.sort(descending=True, stable=True).indices[: math.floor(round(share * loaded.layers, 6))]
    return tuple(sorted({0, *best.tolist()}))


def layer_scores(importance: torch.Tensor, alpha: float) -> torch.Tensor:
    """Return the scores (L,) of layers from their importance (L,); both parts are scaled to 0 .. 1."""
    depth = torch.arange(len(importance), dtype=torch.float64)
    gaussian = torch.exp(-((depth - 0.5 * (len(importance) - 1)) ** 2) / (2 * SIGMA**2))
    return alpha * _scaled(importance.double()) + (1 - alpha) * _scaled(gaussian)


def importance_of(attentions: Sequence[torch.Tensor], sent: int) -> torch.Tensor:
    """Return the importance (L,) of layers from attention weights (heads, n, n) of a sequence.

    It is the mean over heads and over queries behind the first `sent` positions of their attention to positions
    1 .. sent - 1; the first one, an attention sink, is left out.
    """
    return torch.stack([weights[:, sent:, 1:sent].sum(-1).mean() for weights in attentions])


def calibrated(loaded: LoadedModel) -> torch.Tensor:
    """Return the importance of a model's layers on the calibration question, measured once."""
    network = loaded.network
    if network not in _calibrations:
        sent, asked = (_ids(loaded, text) for text in (KNOWN, ASKED))
        _calibrations[network] = importance_of(network.attentions([*sent, *asked]), len(sent)).cpu()
    return _calibrations[network]


def layer_of(layer: int, speaker: int, hearer: int) -> int:
    """Return the layer of a hearer with that many layers that corresponds to a speaker's layer (KVComm)."""
    return min(max(round((layer + 0.5) * hearer / speaker - 0.5), 0), hearer - 1)


def _scaled(values: torch.Tensor) -> torch.Tensor:
    apart = values.max() - values.min()
    return (values - values.min()) / apart if apart > 0 else torch.zeros_like(values)


def _ids(loaded: LoadedModel, text: str) -> list[int]:
    pieces = loaded.chat.encode([Turn("user", (text,))])
    return [id for piece in pieces if isinstance(piece, tuple) for id in piece]
