"""Find a model's decoder layers, and read or change what they put out while one call lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from sottovoce.errors import ModelError

PATHS = (
    "model.layers",  # Llama, Qwen, Mistral, Gemma, Phi-3, OLMo-2, StableLM, Granite
    "model.language_model.layers",  # multimodal wrappers
    "model.decoder.layers",  # OPT
    "transformer.h",  # GPT-2, Falcon, BLOOM
    "transformer.blocks",  # MPT
    "gpt_neox.layers",
)
Change = Callable[[torch.Tensor], torch.Tensor]
"""Output of a layer (b, n, H) -> what the next layer gets."""


def decoder_layers(model: nn.Module, path: str | None = None) -> nn.ModuleList:
    """Return the decoder layers, found by a known attribute path or by `path`.

    Raises:
        ModelError: no list of layers stands at any of the paths.
    """
    for candidate in (path,) if path else PATHS:
        found = _attribute(model, candidate)
        if isinstance(found, nn.ModuleList) and len(found):
            return found
    tried = path or ", ".join(PATHS)
    raise ModelError(
        f"no decoder layers in {type(model).__name__} at {tried}; "
        "set `layers_path` to the attribute path of its list of decoder layers"
    )


@contextmanager
def hooked(layers: nn.ModuleList, changes: Mapping[int, Change]) -> Iterator[None]:
    """Apply `changes` to the outputs of the layers (0-based) inside the block; no hook outlives it."""
    handles = [layers[at].register_forward_hook(_hook(change)) for at, change in changes.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def read_before(module: nn.Module, read: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Show `read` the first input of `module` inside the block: the normed states, for an output head."""
    handle = module.register_forward_pre_hook(lambda _, inputs: read(inputs[0]))
    try:
        yield
    finally:
        handle.remove()


class Hooks:
    """The hooks that others put on a model, on any of its parts, or on all modules of the process."""

    def __init__(self, model: nn.Module) -> None:
        """Remember where hooks would be found."""
        own = [hooks for module in model.modules() for hooks in (module._forward_hooks, module._forward_pre_hooks)]
        every: Any = nn.modules.module  # Any: torch types none of its own
        self._kept = [*own, every._global_forward_hooks, every._global_forward_pre_hooks]

    def __bool__(self) -> bool:
        """True while there are any; between two passes, when ours are gone."""
        return any(self._kept) and any(not _idle(hook) for hooks in self._kept for hook in hooks.values())


def _idle(hook: Callable[..., Any]) -> bool:
    """Transformers leaves its own behind once states were asked for; they do nothing until they are again."""
    return getattr(hook, "__module__", None) == "transformers.utils.output_capturing"


def _hook(change: Change) -> Callable[..., Any]:  # Any: a layer puts out a tensor or a tuple that opens with it
    def hook(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (change(output[0]), *output[1:])
        return change(output)

    return hook


def _attribute(model: nn.Module, path: str) -> object:
    found: object = model
    for name in path.split("."):
        found = getattr(found, name, None)
    return found
