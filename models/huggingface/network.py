"""The forward pass of one Hugging Face causal LM over a KV cache: inputs, masks, hooks; logits at the last position."""

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
from sottovoce.models.huggingface.captured import Captured
from sottovoce.models.huggingface.family import Attention
from sottovoce.models.huggingface.layers import Change, Hooks, capture, decoder_layers, hooked
from sottovoce.models.huggingface.pack import parameters_of
from sottovoce.models.huggingface.passes import FINAL, CacheView, Kind, Pass, Reading, kinds_of
from sottovoce.models.huggingface.reordered import ReorderedLinear
from sottovoce.models.huggingface.table import Table

SMALL = 20_000_000  # parameters: below, one thread is faster than two


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
        self._hooks = Hooks(model)
        self.version = 0
        """Another one after `forget`."""
        self._lock = threading.RLock()  # hooks of one pass must not act in another's
        self._accepts = set(inspect.signature(model.forward).parameters)

    @property
    def device(self) -> torch.device:
        """Where inputs enter."""
        return self.table.rows.device

    @property
    def small(self) -> bool:
        """True on a CPU where a step is mostly the calls that make it."""
        return self.device.type == "cpu" and parameters_of(self.model) < SMALL

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

    def forward(self, reading: Reading, layers: Sequence[int] = (), edits: Mapping[int, Change] | None = None) -> Pass:
        """Read, and give the states of `layers`; FINAL among them is the last one's after the final norm.

        `edits` change what decoder layers put out; they come before the states are taken.
        """
        states: dict[int, torch.Tensor] = {}

        def keep(layer: int, hidden: torch.Tensor) -> None:
            states[layer] = hidden[:, -1].clone()  # (b, H); a view would hold the whole prompt

        with self._lock, ExitStack() as stack:
            stack.enter_context(hooked(self.layers, edits or {}))  # first, so that states are taken behind them
            stack.enter_context(hooked(self.layers, capture([at for at in layers if at != FINAL], keep)))
            if FINAL in layers:
                handle = self.head.register_forward_pre_hook(lambda _, inputs: keep(FINAL, inputs[0]))
                stack.callback(handle.remove)
            logits: torch.Tensor = self.model(**self._arguments(reading), use_cache=True).logits
        return Pass(logits[:, -1, : len(self.table)].float(), states)

    def step(self, reading: Reading, layers: Sequence[int] = ()) -> Pass:
        """As `forward`, one query a sequence; perhaps with the states of other layers too."""
        with self._lock:
            again = self._captured.step(reading, layers) if self._captured and not self.hooked else None
            return again or self.forward(reading, layers)

    def attention_of_last(self, inputs: torch.Tensor, layer: int, edits: Mapping[int, Change]) -> torch.Tensor:
        """(heads, n): how a layer's heads weigh the n positions of one sequence (1, n) or (1, n, E) at the last one.

        `edits` change what decoder layers put out at all positions but the last. Only the last is computed by
        transformers' own eager attention, the one kind that gives its weights.
        """
        config = self.model.config.get_text_config()
        kind = config._attn_implementation
        with self._lock, torch.inference_mode():
            with hooked(self.layers, edits):
                cache = self.model(**_named(inputs[:, :-1]), use_cache=True).past_key_values
            try:
                self.model.set_attn_implementation("eager")
                last = self.model(**_named(inputs[:, -1:]), past_key_values=cache, output_attentions=True)
            finally:
                self.model.set_attn_implementation(kind)
        weights: torch.Tensor = last.attentions[layer]
        return weights[0, :, -1].float()

    @property
    def hooked(self) -> bool:
        """True while somebody else's hooks are on the model: what it reads meanwhile serves nobody afterwards."""
        with self._lock:  # or ours, of another engine's pass, would be taken for somebody else's
            return bool(self._hooks)

    def forget(self) -> None:
        """Note that weights or parts of the model were changed: nothing that was made of them holds any longer."""
        with self._lock:
            self.version += 1
            self._hooks = Hooks(self.model)
            self.__dict__.pop("_captured", None)
            for module in self.model.modules():
                if isinstance(module, ReorderedLinear):
                    module.forget()

    @property
    def captures(self) -> bool:
        """True where steps of few shapes are cheaper: they are captured once and replayed."""
        return self._captured is not None

    @cached_property
    def _captured(self) -> Captured | None:
        """What makes a step that was made before without the model's own code, where all of it lies on one GPU."""
        one_gpu = self.device.type == "cuda" and {kind.device for kind in self.kinds} == {self.device}
        return Captured(self.forward, len(self.layers)) if one_gpu and not self.attention.alone else None

    def _arguments(self, reading: Reading) -> dict[str, Any]:
        """Keyword arguments of the model (Any: of all kinds)."""
        inputs, end = reading.inputs, reading.span.shape[0]
        arguments: dict[str, Any] = {
            **_named(inputs),
            "past_key_values": CacheView(self.kinds, reading.window, reading.columns, end),
        }
        if not reading.plain or self.attention.window is not None:
            arguments["attention_mask"] = self.attention.mask(reading.positions, reading.span)
        if "logits_to_keep" in self._accepts:
            arguments["logits_to_keep"] = 1
        if "position_ids" in self._accepts:  # alibi families count positions from the mask
            arguments["position_ids"] = reading.positions
        return arguments


def _named(inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"input_ids" if inputs.dim() == 2 else "inputs_embeds": inputs}
