"""The forward pass of one Hugging Face causal LM: padding, cache, hooks; logits at the last position."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from torch import nn
from transformers import DynamicCache, PreTrainedModel

from sottovoce.errors import ModelError
from sottovoce.models.layers import Change, decoder_layers, hooked, read_before
from sottovoce.models.request import Ids, Record, Request
from sottovoce.models.table import Table

FINAL = -1
"""Under this key a capture holds the last layer's state after the final norm."""
States = dict[int, torch.Tensor]
"""By layer: the state (b, H) of the last position."""


class Network:
    """What a model can do for the decoding loop, whatever its family."""

    def __init__(self, model: PreTrainedModel, vocabulary: int, layers_path: str | None = None) -> None:
        """Keep the model in evaluation mode; `vocabulary` is the tokenizer's, without padded rows.

        Raises:
            ModelError: the decoder layers or the output head were not found.
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
        self.table = Table.of(self.embedding, min(vocabulary, model.config.get_text_config().vocab_size))
        self._accepts = set(inspect.signature(model.forward).parameters)
        self._ready_masks = "position_ids" in self._accepts and _attends_to_all(model)

    @property
    def device(self) -> torch.device:
        """Where inputs enter."""
        return self.table.rows.device

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

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids as the model's own module embeds them."""
        embedded: torch.Tensor = self.embedding(ids)
        return embedded

    def forward(
        self, inputs: torch.Tensor, past: Past, changes: dict[int, Change], *, normed: States | None = None
    ) -> torch.Tensor:
        """Read inputs, ids (b, n) or embeddings (b, n, E), after what `past` holds.

        Returns float32 logits (b, V) over the tokenizer's vocabulary; puts the last layer's state
        after the final norm into `normed`, where that is given.
        """
        arguments = past.arguments(inputs.shape[1], ready=self._ready_masks)
        arguments["input_ids" if inputs.dim() == 2 else "inputs_embeds"] = inputs
        if "logits_to_keep" in self._accepts:
            arguments["logits_to_keep"] = 1
        if "position_ids" not in self._accepts:  # alibi families count positions from the mask
            del arguments["position_ids"]
        with ExitStack() as stack:
            stack.enter_context(hooked(self.layers, changes))
            if normed is not None:
                keep = normed.__setitem__
                stack.enter_context(read_before(self.head, lambda states: keep(FINAL, states[:, -1].clone())))
            logits: torch.Tensor = self.model(**arguments, use_cache=True).logits
        past.seen += inputs.shape[1]
        return logits[:, -1, : len(self.table)].float()


@dataclass
class Past:
    """What a batch has read: keys and values, left padding, and how far it came."""

    lengths: list[int]
    room: int
    """Positions that decoding may add."""
    device: torch.device
    seen: int = 0
    cache: DynamicCache = field(
        default_factory=DynamicCache
    )  # without config: every layer full, the mask does the window
    mask: torch.Tensor = field(init=False)
    """(b, all positions): False at the padding."""
    positions: torch.Tensor = field(init=False)
    """(b, all positions): counted from each row's first token."""

    def __post_init__(self) -> None:
        longest = max(self.lengths)
        pads = longest - torch.tensor(self.lengths, device=self.device)  # (b,)
        columns = torch.arange(longest + self.room, device=self.device)
        self.mask = columns >= pads[:, None]
        self.positions = (columns - pads[:, None]).clamp_min(0)
        self.padded = min(self.lengths) < longest

    def arguments(self, n: int, *, ready: bool) -> dict[str, object]:
        """Keyword arguments of the forward pass over the next n positions; `ready` as `_attends_to_all` has it."""
        end = self.seen + n
        arguments: dict[str, object] = {
            "position_ids": self.positions[:, self.seen : end],
            "past_key_values": self.cache,
        }
        if self.padded:
            arguments["attention_mask"] = (
                self.mask[:, None, None, :end] if ready and n == 1 else self.mask[:, :end].long()
            )
        return arguments

    def select(self, keep: Sequence[int]) -> None:
        """Go on with these rows alone."""
        at = torch.tensor(keep, device=self.device)
        self.cache.batch_select_indices(at)
        self.mask, self.positions = self.mask[at], self.positions[at]


def _attends_to_all(model: PreTrainedModel) -> bool:
    """True where a step's mask is the padding alone: transformers then takes it ready made, in 4-D.

    Elsewhere (windows, alibi, an attention that adds its mask) it builds the mask from a 2-D one, at
    each step: 8 % of the time at batch 8.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = kinds != {"full_attention"} or getattr(config, "sliding_window", None) is not None
    return config._attn_implementation == "sdpa" and not windowed and not getattr(config, "alibi", False)


def prompt_inputs(network: Network, requests: Sequence[Request], *, as_rows: bool) -> torch.Tensor:
    """Left-padded prompts: ids (b, n), or with `as_rows` embeddings (b, n, E)."""
    longest = max(request.length for request in requests)
    if not as_rows:
        ids = [sum((piece.ids for piece in request.prompt if isinstance(piece, Ids)), ()) for request in requests]
        return torch.tensor([[0] * (longest - len(row)) + list(row) for row in ids], device=network.device)
    table = network.table.rows
    inputs = torch.zeros(len(requests), longest, table.shape[1], dtype=table.dtype, device=network.device)
    for row, request in zip(inputs, requests, strict=True):
        at = longest - request.length
        for piece in request.prompt:
            row[at : at + len(piece)] = (
                network.embed(torch.tensor(piece.ids, dtype=torch.long, device=network.device))
                if isinstance(piece, Ids)
                else piece.rows.to(row)
            )
            at += len(piece)
    return inputs


def capture(records: Sequence[Record], states: States) -> dict[int, Change]:
    """Changes that change nothing, and put the last position of every recorded layer into `states`."""

    def reader(layer: int) -> Change:
        def read(hidden: torch.Tensor) -> torch.Tensor:
            states[layer] = hidden[:, -1].clone()  # (b, H); a view would hold the whole prefill
            return hidden

        return read

    return {layer: reader(layer) for record in records for layer in record.layers}


def apply_edits(requests: Sequence[Request], changes: dict[int, Change]) -> dict[int, Change]:
    """Put each request's edits before `changes`: added in float32 at prompt positions, then cast."""
    longest = max(request.length for request in requests)
    edits: dict[int, list[tuple[int, int, torch.Tensor]]] = {}
    for i, request in enumerate(requests):
        for edit in request.edits:
            edits.setdefault(edit.layer, []).append((i, longest - request.length + edit.at, edit.delta))

    def editor(layer: int) -> Change:
        def change(hidden: torch.Tensor) -> torch.Tensor:
            hidden = hidden.clone()
            for i, at, delta in edits[layer]:
                here = hidden[i, at : at + len(delta)]
                here.copy_(here.float() + delta.to(here.device).float())
            return changes[layer](hidden) if layer in changes else hidden

        return change

    return {**changes, **{layer: editor(layer) for layer in edits}}
