"""The protocols sde, hidden and graft: words, with hidden states or their changes.

SDE (arXiv 2506.19209): while an agent speaks, the output h_i of chosen decoder layers is
recorded at each token; delta_i = h_i - h_(i-1), with h_0 at the last position of the prompt. When a
hearer reads the message's tokens in the prefill, each layer's delta is added to that layer's output at
the token's position. `hidden` is the ablation "w/o delta": h_i itself is added.

graft (Communicating Activations, arXiv 2501.14082): the state that enters layer k of the sender at its last prompt
position replaces, or is added to or averaged with, the state that enters layer j of the receiver at its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch

from sottovoce.channels.compress import vectors
from sottovoce.channels.message import MessageRef
from sottovoce.channels.options import GraftOptions, Merge, StateOptions
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Encoded, Protocol, in_words, payload_ids
from sottovoce.core.errors import ProtocolError, UsageError
from sottovoce.models import LAST, Edit, Ids, LoadedModel, Record, Reply, streams
from sottovoce.models.engine.request import How

DEPTH = 26 / 32  # of the layers, as in the paper
HOW: dict[Merge, How] = {"replace": "replace", "sum": "add", "mean": "mean"}


class SDE(Protocol):
    """The protocol of state delta encoding."""

    Options = StateOptions
    options: StateOptions
    name: ClassVar[str] = "sde"

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Require the same weights on both sides, or with `allow_other_weights` the same vocabulary and shape."""
        for model in (speaker, hearer):
            _check_states(self.name, model)
        one, other = ((each.layers, each.network.hidden, each.vocabulary_key) for each in (speaker, hearer))
        differ = self._check_weights(speaker, hearer, fits=one == other)
        return f"by {self.name} between other weights, which is outside the paper" if differ else None

    def to_record(self, loaded: LoadedModel) -> Record:
        """Record the states of the chosen layers too."""
        _check_states(self.name, loaded)
        return replace(super().to_record(loaded), layers=self._layers(loaded), final_norm=self.rules.normed_last_state)

    def payload_tensors(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """Return the differences, or for `hidden` the states, (layers, n, H) in the model's dtype."""
        states = torch.stack([reply.states[layer] for layer in self._layers(loaded)])  # (L, n + 1, H)
        return {"states": self._encode(states)}

    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return the message's tokens, with an edit for each layer if the message carries its states."""
        ids = payload_ids(reference, payload)
        if not self.carries(reference, payload, loaded) or not len(ids):
            return ids, ()
        assert payload.states is not None, "checked by `carries`"
        at, strength = payload.tokens(reference.spans), self.options.strength
        added = payload.states[:, at] if strength == 1 else payload.states[:, at] * strength
        return ids, tuple(Edit(layer, 0, states) for layer, states in zip(payload.label.layers, added, strict=True))

    def carries(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> bool:
        """Return True if its states fit, too."""
        label, states = payload.label, payload.states
        if states is None or not super().carries(reference, payload, loaded):
            return False
        shape = states.shape[-1] == loaded.network.hidden and max(label.layers, default=0) < loaded.layers
        return label.weights == loaded.weights_key or (shape and label.vocabulary == loaded.vocabulary_key)

    def _encode(self, states: torch.Tensor) -> torch.Tensor:
        return (states[:, 1:].float() - states[:, :-1].float()).to(states.dtype)

    def _layers(self, loaded: LoadedModel) -> tuple[int, ...]:
        return loaded.latent_layers(self.options.layers)


class Hidden(SDE):
    """The ablation without differences: states themselves are added, at the same layers and positions."""

    name: ClassVar[str] = "hidden"

    def _encode(self, states: torch.Tensor) -> torch.Tensor:
        return states[:, 1:].clone()


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
            raise UsageError("graft carries a single state, which keep cannot shorten; leave it out")

    @property
    def silent(self) -> bool:
        """True, since the state belongs to the prompt."""
        return True

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Require one state at each position, and the same weights unless `allow_other_weights`, of any shape."""
        for model in (speaker, hearer):
            _check_states(self.name, model)
            self._layers(model)
            self._layer(model, self.options.layer_to)
        told = "with the state of the prompt's last position, which comes from all that the sender was told"
        return f"{told}; between other weights" if self._check_weights(speaker, hearer) else told

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
        state = vectors(payload.tensors, "state")
        if state is None or not self.carries(reference, payload, loaded):
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


def _check_states(name: str, loaded: LoadedModel) -> None:
    """Refuse a model with several states at each position of a layer."""
    if (found := streams(loaded.model)) > 1:
        raise ProtocolError(
            f"{name} reads and changes one state at each position, but the layers of {loaded.name!r} return {found}",
            "use nl",
        )
