"""The files of a sentence encoder in the layout of sentence-transformers: modules, pooling, prompts.

`modules.json` lists a transformer, a pooling, and optionally linear layers and a normalization. Nothing that a file
names is imported: known modules are implemented here, and others are rejected. A directory without that list is a
plain transformer, pooled by the mean over all tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from sottovoce.core.errors import ModelError
from sottovoce.core.files import bytes_of

if TYPE_CHECKING:
    import torch

Mode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""Order in which the vectors of several modes are concatenated."""
OLDER = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}
"""Modes with another name after `pooling_mode_` in files from before version 6."""
OF_QUERIES, OF_PASSAGES = ("query",), ("document", "passage", "corpus")
"""Names of prompts, in the order in which the library looks for them."""


@dataclass(frozen=True)
class SentenceFiles:
    """An encoder as described by the files of its directory."""

    transformer: Path
    """Directory of config.json and weights."""
    longest: int | None = None
    """Longest text in tokens; None uses the limits of tokenizer and model."""
    lower: bool = False
    """True if texts are lowercased first."""
    pooling: tuple[Mode, ...] = ("mean",)
    include_prompt: bool = True
    """False if the tokens of a prompt are not pooled."""
    layers: tuple[Path | None, ...] = ()
    """Steps after the pooling: directories of linear layers, and None for a normalization."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None

    def prompt(self, names: tuple[str, ...]) -> str:
        """Return the first prompt with one of these names, else the default prompt unless it belongs to the other side.

        The library's `encode_document` ignores the name "passage" (6.2), although its pages say that it is used.
        """
        default = None if self.default_prompt in (*OF_QUERIES, *OF_PASSAGES) else self.default_prompt
        return self.prompts.get(next((name for name in names if name in self.prompts), default) or "", "")


def sentence_files(folder: Path) -> SentenceFiles:
    """Read the files of a directory.

    Raises:
        ModelError: A file is damaged, or names a module, a pooling or a similarity that is not supported.
    """
    config: dict[str, Any] = _json(folder, "config_sentence_transformers.json")
    modules = _modules(folder)
    transformer = modules[0][1]
    layers: list[Path | None] = [None if kind == "Normalize" else path for kind, path in modules[2:]]
    similarity = config.get("similarity_fn_name") or "cosine"
    if similarity not in ("cosine", "dot"):
        raise _wrong(folder, f"is compared by {similarity!r}", "cosine or dot")
    if similarity == "cosine" and None not in layers[-1:]:
        layers.append(None)  # the index compares by inner product
    pooling: dict[str, Any] = _json(modules[1][1], "config.json") if len(modules) > 1 else {}
    sizes: dict[str, Any] = next(
        (_json(each.parent, each.name) for each in sorted(transformer.glob("sentence_*_config.json"))), {}
    )
    prompts = {str(name): str(prompt) for name, prompt in (config.get("prompts") or {}).items() if prompt is not None}
    return SentenceFiles(
        transformer=transformer,
        longest=sizes.get("max_seq_length"),
        lower=bool(sizes.get("do_lower_case")),
        pooling=_pooling(folder, pooling),
        include_prompt=bool(pooling.get("include_prompt", True)),
        layers=tuple(layers),
        prompts=prompts,
        default_prompt=config.get("default_prompt_name"),
    )


def check_cross_encoder(folder: Path) -> None:
    """Check that a directory's cross-encoder is only a transformer, and adds no prompt to texts."""
    kinds = [str(module.get("type")).rpartition(".")[2] for module in _json(folder, "modules.json", [])]
    if kinds not in ([], ["Transformer"]):
        raise _wrong(folder, f"has the modules {', '.join(kinds)}", "only a Transformer")
    if prompt := _json(folder, "config_sentence_transformers.json").get("default_prompt_name"):
        raise _wrong(folder, f"has the default prompt {prompt!r}", "a cross-encoder without prompts")


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Return the kinds of modules with their directories: a transformer, a pooling, and the layers after them."""
    listed = _json(folder, "modules.json", [])
    if not listed:
        return [("Transformer", folder)]
    try:
        modules = [(str(module["type"]).rpartition(".")[2], _inside(folder, str(module["path"]))) for module in listed]
    except (KeyError, TypeError) as error:
        raise _wrong(folder, f"has a damaged modules.json ({error})", "a list of modules with type and path") from error
    kinds = [kind for kind, _ in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or not {*kinds[2:]} <= {"Dense", "Normalize"}:
        raise _wrong(folder, f"has the modules {', '.join(kinds)}", "Transformer, Pooling, then Dense or Normalize")
    return modules


def _inside(folder: Path, path: str) -> Path:
    if not (folder / path).resolve().is_relative_to(folder.resolve()):
        raise _wrong(folder, f"has a module in {path!r}", "directories inside it")
    return folder / path


def _pooling(folder: Path, config: dict[str, Any]) -> tuple[Mode, ...]:  # Any: JSON
    names = config.get("pooling_mode")
    if names is None:
        names = [mode for mode in MODES if config.get(f"pooling_mode_{OLDER.get(mode, mode)}")] or ["mean"]
    modes: list[Any] = [names] if isinstance(names, str) else list(names)  # Any: JSON, until it is checked
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise _wrong(folder, f"pools by {unknown[0]!r}", ", ".join(MODES))
    return tuple(modes)


def _json(folder: Path, name: str, absent: Any = None) -> Any:  # Any: JSON
    try:
        content = json.loads(bytes_of(folder / name))
    except (FileNotFoundError, NotADirectoryError):
        return {} if absent is None else absent
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{name} of encoder {str(folder)!r} cannot be read: {error}") from error
    if not isinstance(content, dict if absent is None else list):
        raise _wrong(folder, f"has a damaged {name}", "an object" if absent is None else "a list")
    return content


def _wrong(folder: Path, problem: str, expected: str) -> ModelError:
    return ModelError(
        f"model {str(folder)!r} {problem}; expected {expected}; in Python you can pass any other model as an object"
    )


LEAST = 1e-9
"""Lower bound of a sum of weights, which avoids division by zero."""
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")


def pooled(hidden: torch.Tensor, mask: torch.Tensor, modes: Sequence[str], prompt: int = 0) -> torch.Tensor:
    """Pool hidden states (batch, token, number) to vectors (batch, number); those of several modes are concatenated.

    `mask` (batch, token) is 1 for tokens that are not padding. The first `prompt` tokens of each text are ignored.
    Weights of `weightedmean` are 1-based positions counted from the first token, including ignored ones.
    """
    import torch

    first = mask.int().argmax(1, keepdim=True)
    places = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    counted = mask.bool() & (places >= first + prompt)
    weights = {"mean": counted, "mean_sqrt_len_tokens": counted, "weightedmean": counted * (places - first + 1)}

    def vector(mode: str) -> torch.Tensor:
        if mode in weights:
            weight = weights[mode].to(hidden.dtype).unsqueeze(-1)
            total = weight.sum(1).clamp(min=LEAST)
            return (hidden * weight).sum(1) / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)
        if mode == "max":
            return hidden.masked_fill(~counted.unsqueeze(-1), float("-inf")).amax(1)
        at = counted.int().argmax(1) if mode == "cls" else (places * counted).argmax(1)
        return hidden[torch.arange(len(hidden), device=hidden.device), at]

    return torch.cat([vector(mode) for mode in modes], dim=-1)


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Divide vectors (batch, number) by their lengths."""
    import torch

    return torch.nn.functional.normalize(vectors, dim=-1)


def linear(folder: Path) -> Any:  # Any: a torch module
    """Load a linear layer with its activation from a folder with config.json and model.safetensors."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads(bytes_of(folder / "config.json"))
        layer = torch.nn.Linear(
            int(config["in_features"]), int(config["out_features"]), bias=bool(config.get("bias", True))
        )
        weights = load_file(folder / "model.safetensors")
        layer.load_state_dict({name.removeprefix("linear."): value.float() for name, value in weights.items()})
        activation = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"the linear layer in {str(folder)!r} cannot be read: {' '.join(str(error).split())}"
        ) from error
    if activation not in ACTIVATIONS:
        raise ModelError(f"{str(folder)!r} has the activation {activation!r}; expected one of {', '.join(ACTIVATIONS)}")
    return torch.nn.Sequential(layer, getattr(torch.nn, activation)()).eval().requires_grad_(False)
