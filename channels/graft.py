"""The protocol graft: the state at the sender's last prompt position enters the receiver as it reads its prompt.

Communicating Activations (arXiv 2501.14082): the state that enters layer k of the sender replaces, or is added to or
averaged with, the state that enters layer j of the receiver at its last prompt position.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch

from sottovoce.channels.compress import vectors
from sottovoce.channels.message import MessageRef
from sottovoce.channels.options import GraftOptions, Merge
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Encoded, Protocol, in_words, payload_ids
from sottovoce.core.errors import ProtocolError, UsageError
from sottovoce.models import LAST, Edit, Ids, LoadedModel, Record, Reply, streams
from sottovoce.models.engine.request import How

DEPTH = 26 / 32  # of the layers, as in the paper
HOW: dict[Merge, How] = {"replace": "replace", "sum": "add", "mean": "mean"}


class Graft(Protocol):
    """The protocol of grafted activations; with several messages, each changes the result of the one before it."""

    Options = GraftOptions
    options: GraftOptions
    name: ClassVar[str] = "graft"
    hands_over: ClassVar[bool] = True
    carries_words: ClassVar[bool] = False

    def check_options(self) -> None:
        """Refuse a share of tokens: one state is carried."""
        if self.options.keep != 1:
            raise UsageError("graft carries one state, of which no part can be left out; leave out keep")

    @property
    def silent(self) -> bool:
        """True, since the state belongs to the prompt."""
        return True

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Require models with one state at each position; widths, depths and vocabularies may differ."""
        for model in (speaker, hearer):
            if (found := streams(model.model)) > 1:
                raise ProtocolError(
                    f"graft reads and changes one state at each position, but the layers of {model.name!r} return "
                    f"{found}",
                    "use nl",
                )
            self._layers(model)
            self._layer(model, self.options.layer_to)
        told = "with the state of the prompt's last position, which comes from all that the sender was told"
        return told if speaker.weights_key == hearer.weights_key else f"{told}; between other weights"

    def to_record(self, loaded: LoadedModel) -> Record:
        """Record the states that enter the layer too."""
        return replace(super().to_record(loaded), layers=(self._layers(loaded)[0] - 1,))

    def payload_tensors(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """Return the state (1, H) at the last position of the prompt."""
        (states,) = reply.states.values()
        return {"state": states[:1].clone()}

    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return the message's tokens, and the change of the prompt's last position."""
        return self._encode(reference, payload, loaded, payload_ids(reference, payload))

    def encode_across_vocabularies(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return the message's words, and the change of the prompt's last position."""
        return self._encode(reference, payload, loaded, in_words(reference.body, loaded))

    def _encode(self, reference: MessageRef, payload: Payload, loaded: LoadedModel, words: Ids) -> Encoded:
        carries = not reference.own and (reference.latest or self.options.inject == "all")
        state = vectors(payload.tensors, "state")
        if not carries or state is None or payload.label.protocol != self.name:
            return words, ()
        how, hidden = HOW[self.options.merge], loaded.network.hidden
        state = state[:, -hidden:]  # of different widths, the last coordinates that both have
        if how == "add":
            state = torch.nn.functional.pad(state, (hidden - state.shape[1], 0))
        return words, (Edit(self._layer(loaded, self.options.layer_to) - 1, LAST, state, how),)

    def _layers(self, loaded: LoadedModel) -> tuple[int, ...]:
        return (self._layer(loaded, self.options.layer_from),)

    def _layer(self, loaded: LoadedModel, chosen: int | None) -> int:
        if chosen is not None and chosen >= loaded.layers:
            raise UsageError(f"layer {chosen} is out of range; {loaded.name!r} has layers 0 to {loaded.layers - 1}")
        return chosen or max(min(round(DEPTH * loaded.layers), loaded.layers - 1), 1)

    def _origin(self, reply: Reply) -> str:
        return "the prompt"
