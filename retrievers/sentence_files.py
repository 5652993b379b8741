"""The files of a sentence encoder in the layout of sentence-transformers: modules, pooling, prompts.

`modules.json` lists a transformer, a pooling, and optionally linear layers and a normalization. Nothing that a file
names is imported: known modules are implemented here, and others are rejected. A directory without that list is a
plain transformer, pooled by the mean over all tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from sottovoce.core.errors import ModelError
from sottovoce.core.regular_files import bytes_of

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
    said: dict[str, Any] = _json(folder, "config_sentence_transformers.json")
    modules = _modules(folder)
    transformer = modules[0][1]
    layers: list[Path | None] = [None if kind == "Normalize" else path for kind, path in modules[2:]]
    similarity = said.get("similarity_fn_name") or "cosine"
    if similarity not in ("cosine", "dot"):
        raise _wrong(folder, f"is compared by {similarity!r}", "cosine or dot")
    if similarity == "cosine" and None not in layers[-1:]:
        layers.append(None)  # the index compares by inner product
    pooling: dict[str, Any] = _json(modules[1][1], "config.json") if len(modules) > 1 else {}
    sizes: dict[str, Any] = next(
        (_json(each.parent, each.name) for each in sorted(transformer.glob("sentence_*_config.json"))), {}
    )
    prompts = {str(name): str(prompt) for name, prompt in (said.get("prompts") or {}).items() if prompt is not None}
    return SentenceFiles(
        transformer=transformer,
        longest=sizes.get("max_seq_length"),
        lower=bool(sizes.get("do_lower_case")),
        pooling=_pooling(folder, pooling),
        include_prompt=bool(pooling.get("include_prompt", True)),
        layers=tuple(layers),
        prompts=prompts,
        default_prompt=said.get("default_prompt_name"),
    )


def check_cross_encoder(folder: Path) -> None:
    """Check that a directory's cross-encoder is only a transformer, and adds no prompt to texts.

    Raises:
        ModelError: Its files name further modules or a default prompt.
    """
    kinds = [str(each.get("type")).rpartition(".")[2] for each in _json(folder, "modules.json", [])]
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
        found = [(str(each["type"]).rpartition(".")[2], _inside(folder, str(each["path"]))) for each in listed]
    except (KeyError, TypeError) as error:
        raise _wrong(folder, f"has a damaged modules.json ({error})", "a list of modules with type and path") from error
    kinds = [kind for kind, _ in found]
    if kinds[:2] != ["Transformer", "Pooling"] or not {*kinds[2:]} <= {"Dense", "Normalize"}:
        raise _wrong(folder, f"has the modules {', '.join(kinds)}", "Transformer, Pooling, then Dense or Normalize")
    return found


def _inside(folder: Path, path: str) -> Path:
    if not (folder / path).resolve().is_relative_to(folder.resolve()):
        raise _wrong(folder, f"has a module in {path!r}", "directories inside it")
    return folder / path


def _pooling(folder: Path, said: dict[str, Any]) -> tuple[Mode, ...]:  # Any: JSON
    given = said.get("pooling_mode")
    if given is None:
        given = [mode for mode in MODES if said.get(f"pooling_mode_{OLDER.get(mode, mode)}")] or ["mean"]
    modes: list[Any] = [given] if isinstance(given, str) else list(given)  # Any: JSON, until it is checked
    if unknown := [mode for mode in modes if mode not in MODES]:
        raise _wrong(folder, f"pools by {unknown[0]!r}", ", ".join(MODES))
    return tuple(modes)


def _json(folder: Path, name: str, absent: Any = None) -> Any:  # Any: JSON
    try:
        found = json.loads(bytes_of(folder / name))
    except (FileNotFoundError, NotADirectoryError):
        return {} if absent is None else absent
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{name} of encoder {str(folder)!r} cannot be read: {error}") from error
    if not isinstance(found, dict if absent is None else list):
        raise _wrong(folder, f"has a damaged {name}", "an object" if absent is None else "a list")
    return found


def _wrong(folder: Path, found: str, expected: str) -> ModelError:
    return ModelError(
        f"model {str(folder)!r} {found}; expected {expected}; in Python you can pass any other model as an object"
    )
