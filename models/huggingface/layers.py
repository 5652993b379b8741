"""Access to a model's decoder layers: find them, and read or change their outputs during a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import ModelError

PATHS = (  # ends of module paths, because a wrapper (PEFT, a multimodal model) puts its own names before them
    "model.layers",  # Llama, Qwen, Mistral, Gemma, Phi-3, OLMo-2, StableLM, Granite
    "language_model.layers",  # the text part of a multimodal model
    "decoder.layers",  # OPT
    "transformer.h",  # GPT-2, Falcon, BLOOM
    "transformer.blocks",  # MPT
    "gpt_neox.layers",
)
Change = Callable[[torch.Tensor], torch.Tensor]
"""Output of a layer (b, n, H) -> input of the next layer."""


def decoder_layers(model: nn.Module, path: str | None = None) -> nn.ModuleList:
    """Return the decoder layers, found by a known end of their module path, or by `path` or its end.

    Raises:
        ModelError: there is no list of layers at any of the paths.
    """
    lists = [(f".{name}", each) for name, each in model.named_modules() if isinstance(each, nn.ModuleList) and each]
    for end in (path,) if path else PATHS:
        for name, layers in lists:
            if name.endswith(f".{end}"):
                return layers
    raise ModelError(
        f"no decoder layers in {type(model).__name__} at {path or ', '.join(PATHS)}; "
        "set `layers_path` to the attribute path of its list of decoder layers"
    )


@contextmanager
def record_activations(
    model: nn.Module, layers: Sequence[int], *, layers_path: str | None = None
) -> Iterator[dict[int, list[torch.Tensor]]]:
    """Yield the states of decoder layers (0-based) in every pass made inside the block.

    Each layer has one tensor (b, n, H) per pass, its output on the model's device. The hooks are removed after the
    block; inside it, requests to an engine of this model read their prompts in full.

    Args:
        model: Any causal language model of transformers, wrapped or not, such as `loaded.model`.
        layers: The layers to record.
        layers_path: As in `load`.

    Raises:
        ModelError: the decoder layers were not found.
        IndexError: a layer is out of range.

    >>> import torch
    >>> from sottovoce.models import load, record_activations
    >>> loaded = load(device="cpu")
    >>> with torch.no_grad(), record_activations(loaded.model, layers=[2]) as states:
    ...     _ = loaded.model(torch.tensor([loaded.chat.ids("Hello there")]))
    >>> tuple(states[2][0].shape) == (1, len(loaded.chat.ids("Hello there")), loaded.network.hidden)
    True
    """
    states: dict[int, list[torch.Tensor]] = {layer: [] for layer in layers}
    with hooked(decoder_layers(model, layers_path), capture(layers, lambda layer, state: states[layer].append(state))):
        yield states


def capture(layers: Sequence[int], keep: Callable[[int, torch.Tensor], None]) -> dict[int, Change]:
    """Return changes for `hooked` that change nothing and pass the output (b, n, H) of each layer to `keep`."""

    def shown(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        keep(layer, hidden)
        return hidden

    return {layer: partial(shown, layer) for layer in layers}


@contextmanager
def hooked(layers: nn.ModuleList, changes: Mapping[int, Change]) -> Iterator[None]:
    """Apply `changes` to the outputs of the layers (0-based) inside the block, and remove the hooks after it."""
    chosen = [(layers[at], change) for at, change in changes.items()]
    handles = [layer.register_forward_hook(_hook(change)) for layer, change in chosen]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hook(change: Change) -> Callable[..., Any]:  # Any: a layer returns a tensor or a tuple that begins with it
    def hook(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (change(output[0]), *output[1:])
        return change(output)

    return hook


def hooks_of(model: nn.Module) -> list[Mapping[int, object]]:
    """Return the hooks on a model, on any of its parts, and on all modules of the process; they change as hooks do."""
    own = [hooks for module in model.modules() for hooks in (module._forward_hooks, module._forward_pre_hooks)]
    every: Untyped = nn.modules.module
    return [*own, every._global_forward_hooks, every._global_forward_pre_hooks]


def is_idle(hook: object) -> bool:
    """Return True for a hook of transformers that stays after states were requested, and does nothing."""
    return getattr(hook, "__module__", None) == "transformers.utils.output_capturing"
