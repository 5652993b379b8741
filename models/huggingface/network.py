"""The forward pass of a Hugging Face causal LM over a KV cache: inputs, masks, hooks; logits where they are wanted."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import DynamicCache, PreTrainedModel

from sottovoce.core.errors import ModelError
from sottovoce.models.huggingface.devices import without_cudnn
from sottovoce.models.huggingface.embedding_table import Table
from sottovoce.models.huggingface.family import Attention, Mask, cache_argument, grouped
from sottovoce.models.huggingface.layers import Change, capture, decoder_layers, hooked, hooks_of, is_idle
from sottovoce.models.huggingface.packed_weights import parameters_of
from sottovoce.models.huggingface.passes import FINAL, CacheView, Kind, Pages, Pass, Reading, kinds_of

if TYPE_CHECKING:
    from sottovoce.models.huggingface.cuda_graphs import CudaGraphs
    from sottovoce.models.huggingface.rotary import Rotary

SMALL = 20_000_000  # parameters; below this, one thread is faster than two


class Network:
    """A model of any family, as the decoding loop uses it."""

    def __init__(self, model: PreTrainedModel, vocabulary: int, layers_path: str | None = None) -> None:
        """Put the model in evaluation mode; `vocabulary` is the tokenizer's size, without padded rows.

        Raises:
            ModelError: no decoder layers or output head, a recurrent state, or an attention that we cannot mask.
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
        config = model.config.get_text_config()
        self.table = Table.of(self.embedding, min(vocabulary, config.vocab_size))
        self.device = self.table.rows.device
        """The device of the inputs."""
        self.hidden = int(config.hidden_size)
        """H, the width of the states between layers."""
        self.context: int | None = getattr(config, "max_position_embeddings", None) or getattr(
            config, "max_seq_len", None
        )
        """Maximum number of positions of the model; None if its configuration sets no limit."""
        self.parameters = parameters_of(model)
        """Number of trained parameters; tied parameters count once."""
        self.small = self.device.type == "cpu" and self.parameters < SMALL
        """True on a CPU if the overhead of calls dominates a step."""
        self._hooks = hooks_of(model)
        self.one_by_one = False
        """True if a batch gives other numbers than each sequence alone: engines then run one at a time."""
        self.version = 0
        """Increases with each `forget`."""
        self._lock = threading.RLock()  # hooks of one pass must not act in another pass
        self._accepts, self._cache = set(inspect.signature(model.forward).parameters), cache_argument(model)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of keys and values per position, measured on one token: grouped or compressed, on which device."""
        cache = DynamicCache()  # without config, or windowed layers would keep only their window
        with self._lock, torch.inference_mode():
            self.model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=self.device), **{self._cache: cache})
        return kinds_of(cache)

    @property
    def cache_shape(self) -> tuple[int, int]:
        """Heads and width of keys and values, which are the same in all layers.

        Raises:
            ModelError: they differ between layers, are compressed, or some layers have none of their own.
        """
        members = sorted(member for kind in self.kinds for member in kind.members)
        if len(self.kinds) != 1 or members != [(layer, j) for layer in range(len(self.layers)) for j in (0, 1)]:
            raise ModelError(f"the layers of {type(self.model).__name__} do not all have keys and values of one shape")
        return self.kinds[0].heads, self.kinds[0].width

    def check_handing_over(self) -> None:
        """Check that keys and values can stand at other positions than those at which they were computed.

        Raises:
            ModelError: they cannot.
        """
        if self.attention.alone:
            raise ModelError("it measures distances in the prompt (ALiBi)")
        window = self.attention.window
        if window is not None and (self.context is None or window < self.context):
            raise ModelError(f"some layers see only the last {window} positions (a sliding window)")
        _ = self.cache_shape, self.rotary

    @cached_property
    def rotary(self) -> Rotary:
        """The rotation of the model's keys by position. Raises a ModelError if there is none, see `Rotary.of`."""
        from sottovoce.models.huggingface.rotary import Rotary  # late: only keys that are handed over need it

        with self._lock, torch.inference_mode():
            return Rotary.of(self.model, self.table)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of token ids, from the model's own module."""
        embedded: torch.Tensor = self.embedding(ids)
        return embedded

    def forward(self, reading: Reading, layers: Sequence[int] = (), edits: Mapping[int, Change] | None = None) -> Pass:
        """Make a pass and return its logits and the states of `layers`; FINAL means after the final norm.

        `edits` change the outputs of decoder layers before the states are taken.
        """
        states: dict[int, torch.Tensor] = {}

        def outputs(hidden: torch.Tensor) -> torch.Tensor:
            selected = reading.selected
            return hidden[:, -1] if selected is None else hidden.flatten(0, 1)[selected.to(hidden.device)]

        def keep(layer: int, hidden: torch.Tensor) -> None:
            states[layer] = outputs(hidden).clone()  # (r, H); a view would keep the whole prompt in memory

        def last(_head: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            if FINAL in layers:
                keep(FINAL, inputs[0])
            return (outputs(inputs[0])[:, None].contiguous(),)  # of a view, torch makes one product for each sequence

        with self._lock, ExitStack() as stack:
            for layer, hidden in reading.hidden.items():
                mask = self._mask(reading, hidden, reading.sight.get(layer))
                mask = mask[self.attention.kinds[layer]] if isinstance(mask, dict) else mask
                hook = partial(_masked, mask)
                stack.callback(self.layers[layer].register_forward_pre_hook(hook, with_kwargs=True).remove)
            stack.enter_context(hooked(self.layers, edits or {}))  # first, so that states are taken after them
            stack.enter_context(hooked(self.layers, capture([at for at in layers if at != FINAL], keep)))
            if reading.inputs.shape[1] > 1 and self.device.type == "cuda":
                stack.enter_context(without_cudnn())
            if reading.selected is not None:  # a few queries of each sequence
                stack.enter_context(grouped(self.model))
            if FINAL in layers or reading.inputs.shape[1] > 1:
                stack.callback(self.head.register_forward_pre_hook(last).remove)
            logits: torch.Tensor = self.model(**self._arguments(reading), use_cache=True).logits
        return Pass(logits[:, -1, : len(self.table)].float(), states)

    def step(self, reading: Reading, layers: Sequence[int] = ()) -> Pass:
        """Make a pass like `forward` with one query per sequence; it may return the states of other layers too."""
        with self._lock:
            usual = not self.hooked and not reading.hidden
            again = self.cuda_graphs.step(reading, layers) if self.cuda_graphs and usual else None
            return again or self.forward(reading, layers)

    def shape_of_step(self, shape: tuple[int, int], window: Pages, inputs: torch.Tensor) -> tuple[int, int]:
        """Return the rows and columns of a step: its own, or the shape of a captured step that is large enough."""
        with self._lock:
            return self.cuda_graphs.serving(shape, window, inputs) if self.cuda_graphs else shape

    def attentions(self, ids: Sequence[int], *, masks_hide: bool = True) -> list[torch.Tensor]:
        """Return the attention weights (heads, n, n) of each layer over a sequence of n tokens, in float32.

        Unless `masks_hide`, the mask is added to the scores as 1 and 0 before the softmax; states do not change.
        """
        inputs = torch.tensor([list(ids)], device=self.device)
        with self._lock, torch.inference_mode(), ExitStack() as stack:
            kind = self.model.config.get_text_config()._attn_implementation
            self.model.set_attn_implementation("eager")  # the only kind that returns its weights
            stack.callback(self.model.set_attn_implementation, kind)
            if not masks_hide:  # a second row, which in each layer begins with the state of the first
                seen = torch.ones(len(ids), len(ids), device=self.device, dtype=self.table.rows.dtype).tril()
                hidden = torch.where(seen > 0, 0, torch.finfo(seen.dtype).min)
                inputs, hook = inputs.repeat(2, 1), partial(_doubled, torch.stack([hidden, seen])[:, None])
                for layer in self.layers:
                    stack.callback(layer.register_forward_pre_hook(hook, with_kwargs=True).remove)
            found = self.model(inputs, output_attentions=True).attentions
        return [weights[-1].float() for weights in found]

    @property
    def hooked(self) -> bool:
        """True while other code's hooks are on the model: prefixes read meanwhile are not shared."""
        with self._lock:  # or our own hooks of another engine's pass would count
            hooks = (hook for each in self._hooks for hook in each.values())
            return any(self._hooks) and not all(map(is_idle, hooks))

    def forget(self) -> None:
        """Note that weights or parts of the model were changed, and drop everything derived from them."""
        with self._lock:
            self.version += 1
            self._hooks = hooks_of(self.model)
            self.__dict__.pop("cuda_graphs", None)

    @cached_property
    def cuda_graphs(self) -> CudaGraphs | None:
        """The CUDA graphs of decoding steps, if the whole model is on one GPU: there, few shapes are cheaper."""
        if self.device.type != "cuda" or {kind.device for kind in self.kinds} != {self.device} or self.attention.alone:
            return None
        from sottovoce.models.huggingface.cuda_graphs import CudaGraphs  # late: only a GPU needs it

        return CudaGraphs(self.forward, len(self.layers))

    def _arguments(self, reading: Reading) -> dict[str, Any]:
        """Return the model's keyword arguments (Any: of various types)."""
        inputs, end = reading.inputs, reading.span.shape[0]
        arguments: dict[str, Any] = {
            "input_ids" if inputs.dim() == 2 else "inputs_embeds": inputs,
            self._cache: CacheView(self.kinds, reading.window, reading.columns, end),
        }
        sdpa, window = self.attention.sdpa, self.attention.window
        # A window needs a mask even where each query sees all before it, unless sdpa has fewer columns.
        if not reading.plain or (window is not None and not (sdpa and end < window)):
            arguments["attention_mask"] = self._mask(reading)
        if "logits_to_keep" in self._accepts:
            arguments["logits_to_keep"] = 1 if reading.selected is None else 0  # 0: all, of which a hook takes some
        if "position_ids" in self._accepts:  # alibi families count positions from the mask
            arguments["position_ids"] = reading.positions
        return arguments

    def _mask(self, reading: Reading, hidden: torch.Tensor | None = None, last: torch.Tensor | None = None) -> Mask:
        last = reading.positions if last is None else last
        return self.attention.mask(last, reading.span, reading.window[0].dtype, hidden)


def _masked(mask: Mask, _module: nn.Module, inputs: Any, named: dict[str, Any]) -> Any:
    return inputs, {**named, "attention_mask": mask}


def _doubled(mask: torch.Tensor, _module: nn.Module, inputs: Any, named: dict[str, Any]) -> Any:
    """Let a layer read the first row's states under each mask (2, 1, n, n)."""
    return (inputs[0][:1].expand_as(inputs[0]), *inputs[1:]), {**named, "attention_mask": mask}
