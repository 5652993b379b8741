"""The forward pass of one Hugging Face causal LM over slots: inputs, masks, hooks; logits at the last position."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, PreTrainedModel

from sottovoce.errors import ModelError
from sottovoce.models.attention import Attention
from sottovoce.models.captured import Captured
from sottovoce.models.layers import Change, Hooks, decoder_layers, hooked, read_before
from sottovoce.models.passes import FINAL, Pass, Reading
from sottovoce.models.slots import Kind, SlotCache, kinds_of
from sottovoce.models.table import Table
from sottovoce.models.traced import Traced

RENEWED = 1 << 40  # more than any count of changes in place
SMALL = 20_000_000  # parameters: below, a step is worth recording, and one thread is faster than two


class Network:
    """What a model can do for the decoding loop, whatever its family."""

    def __init__(self, model: PreTrainedModel, vocabulary: int, layers_path: str | None = None) -> None:
        """Keep the model in evaluation mode; `vocabulary` is the tokenizer's, without padded rows.

        Raises:
            ModelError: the decoder layers or the output head were not found, or it does not attend as we can mask.
        """
        if getattr(model, "_is_stateful", False):
            raise ModelError(
                f"{type(model).__name__} keeps a recurrent state, which cannot be cut back to a prefix; "
                "use a model whose layers all attend"
            )
        self.model = model.eval().requires_grad_(False)
        self.layers = decoder_layers(model, layers_path)
        self.embedding = model.get_input_embeddings()
        head = model.get_output_embeddings()
        if head is None:
            raise ModelError(f"{type(model).__name__} has no output head; expected a causal language model")
        self.head: nn.Module = head
        self.attention = Attention.of(model)
        self.table = Table.of(self.embedding, min(vocabulary, model.config.get_text_config().vocab_size))
        self._hooks, self._weights = Hooks(model), _counted(model)
        self._made_of, self._renewed = _made_of(model), 0
        self._lock = threading.RLock()  # hooks of one pass must not act in another's
        self._accepts = set(inspect.signature(model.forward).parameters)

    @property
    def device(self) -> torch.device:
        """Where inputs enter."""
        return self.table.rows.device

    @property
    def small(self) -> bool:
        """True on a CPU where a step is mostly the calls that make it."""
        return self.device.type == "cpu" and self.model.num_parameters() < SMALL

    @property
    def context(self) -> int | None:
        """How many positions the model can read, or None where its configuration sets no limit."""
        config = self.model.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None) or getattr(config, "max_seq_len", None)
        return int(limit) if limit else None

    @property
    def hidden(self) -> int:
        """H, the width of the states between layers."""
        return int(self.model.config.get_text_config().hidden_size)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """What the model keeps of each position, measured on one token: grouped or compressed, on which device."""
        cache = DynamicCache()  # without config: with one, windowed layers would keep no more than their window
        with self._lock, torch.inference_mode():
            self.model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=self.device), past_key_values=cache)
        return kinds_of(cache)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids as the model's own module embeds them."""
        embedded: torch.Tensor = self.embedding(ids)
        return embedded

    def forward(
        self,
        reading: Reading,
        layers: Sequence[int] = (),
        edits: Mapping[int, Change] | None = None,
    ) -> Pass:
        """Read, and give the states of `layers`; FINAL among them is the last one's after the final norm.

        `edits` change what decoder layers put out; they come before the states are taken.
        """
        with self._lock:
            return self._forward(reading, layers, edits or {})

    def _forward(self, reading: Reading, layers: Sequence[int], edits: Mapping[int, Change]) -> Pass:
        states: dict[int, torch.Tensor] = {}
        changes = _capture([layer for layer in layers if layer != FINAL], states, edits)
        with ExitStack() as stack:
            stack.enter_context(hooked(self.layers, changes))
            if FINAL in layers:
                keep = states.__setitem__
                stack.enter_context(read_before(self.head, lambda normed: keep(FINAL, normed[:, -1].clone())))
            logits: torch.Tensor = self.model(**self._arguments(reading), use_cache=True).logits
        return Pass(logits[:, -1, : len(self.table)].float(), states)

    def step(self, reading: Reading, layers: Sequence[int] = ()) -> Pass:
        """As `forward`, one query a row; perhaps with the states of other layers too."""
        with self._lock:
            again = self._again.step(reading, layers) if self._again else None
            return again or self._forward(reading, layers, {})

    @property
    def stamp(self) -> int | None:
        """Another one when weights were changed in place; None while somebody else's hooks are on the model."""
        if self._hooks:
            return None
        return self._renewed + sum(weights._version for weights in self._weights)

    def renew(self) -> None:
        """Look whether the model is still made of the same parts; if not, forget its recorded steps and its stamp.

        Parts are modules, tensors, switches and scales, and a `forward` of a module's own. What is written
        through `.data` changes none of them: close the engine after that.
        """
        with self._lock:
            made_of = _made_of(self.model)
            if made_of != self._made_of:
                self._made_of, self._renewed = made_of, self._renewed + RENEWED
                self._hooks, self._weights = Hooks(self.model), _counted(self.model)
                self.__dict__.pop("_again", None)

    @property
    def captures(self) -> bool:
        """True where steps of few shapes are cheaper: they are captured once and replayed."""
        return isinstance(self._again, Captured)

    @cached_property
    def _again(self) -> Traced | Captured | None:
        """What makes a step that was made before without the model's own code."""
        devices = {kind.device for kind in self.kinds}
        if self.attention.alone or devices != {self.device}:
            return None
        if self.device.type == "cuda":
            return Captured(self.model, self._plain_forward, len(self.layers))
        return Traced(self.model, self._plain_forward, self.kinds, len(self.layers)) if self.small else None

    def _plain_forward(self, reading: Reading, layers: Sequence[int]) -> Pass:
        return self._forward(reading, layers, {})

    def _arguments(self, reading: Reading) -> dict[str, Any]:
        """Keyword arguments of the model (Any: of all kinds)."""
        inputs, end = reading.inputs, reading.span.shape[0]
        arguments: dict[str, Any] = {
            "input_ids" if inputs.dim() == 2 else "inputs_embeds": inputs,
            "past_key_values": SlotCache(self.kinds, reading.window, reading.columns, end),
        }
        if not reading.plain or self.attention.window is not None:
            arguments["attention_mask"] = self.attention.mask(reading.positions, reading.span)
        if "logits_to_keep" in self._accepts:
            arguments["logits_to_keep"] = 1
        if "position_ids" in self._accepts:  # alibi families count positions from the mask
            arguments["position_ids"] = reading.positions
        return arguments


def _counted(model: nn.Module) -> list[nn.Parameter]:
    """The weights whose changes in place torch counts: not those that were made in inference mode."""
    return [weights for weights in model.parameters() if not weights.is_inference()]


def _made_of(model: nn.Module) -> int:
    """A digest of which objects a model consists of, and of its plain attributes; whole numbers may be counters."""
    parts = []
    for module in model.modules():
        held = (module._parameters, module._buffers, module._modules)
        parts += [id(part) for kept in held for part in kept.values()]
        parts += [tensor.data_ptr() for kept in held[:2] for tensor in kept.values() if tensor is not None]
        own = module.__dict__
        parts.append(id(own.get("forward")))
        plain = {name: value for name, value in own.items() if isinstance(value, float | str | bool)}
        parts += [hash(each) for each in plain.items() if not each[0].startswith("_")]
    return hash(tuple(parts))


def _capture(layers: Sequence[int], states: dict[int, torch.Tensor], edits: Mapping[int, Change]) -> dict[int, Change]:
    """The edits, and after them what puts the last position of each layer into `states`."""

    def change(layer: int) -> Change:
        edit = edits.get(layer)

        def changed(hidden: torch.Tensor) -> torch.Tensor:
            hidden = edit(hidden) if edit else hidden
            if layer in layers:
                states[layer] = hidden[:, -1].clone()  # (b, H); a view would hold the whole prompt
            return hidden

        return changed

    return {layer: change(layer) for layer in {*layers, *edits}}
