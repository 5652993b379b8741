"""Checks that a model's files are valid and fit one another, and a diagnosis of nonfinite logits.

An error is one line: file, found, expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import ModelError, SottovoceError
from sottovoce.core.files import text_of
from sottovoce.models.sources.cache import changed

CONFIG, ADAPTER = "config.json", "adapter_config.json"
ATTENTIONS = ("eager", "sdpa")
"""Implementations of attention that are part of transformers and torch."""
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
SMALL_FILES = (CONFIG, "generation_config.json", "tokenizer_config.json", INDEX)
NUMBERED = re.compile(r"(.*?)\.(\d+)\.")
"""The name of a layer's weight: the path of the layers, and the layer's number."""
AGAIN = "fetch the folder again, as one"


@contextmanager
def reading(name: str, part: str = "") -> Iterator[None]:
    """Turn any error of a library that reads untrusted files into a ModelError of one line."""
    try:
        yield
    except SottovoceError:
        raise
    except Exception as error:  # each library has its own error classes, and few are documented
        raise ModelError(f"model {name!r} cannot be loaded: {part and f'{part}: '}{reason(error)}") from error


def reason(error: Exception) -> str:
    """Return the message of a library's error in one line."""
    text = str(error).strip()
    if "trust_remote_code" in text:
        return "it needs code of its own, which is never run; use a model that transformers supports"
    first = text.split("\n")[0].rstrip()
    line = " ".join(text.split()) if first.endswith(":") else first
    return line if " " in line else f"{type(error).__name__} {line}".rstrip()  # a KeyError has only the key


def check_files(name: str, folder: Path) -> None:
    """Refuse a folder with unreadable or missing files."""
    check_adapter(name, folder)
    found = {file: _json(name, folder / file) for file in SMALL_FILES if (folder / file).is_file()}
    shards = found.get(INDEX, {}).get("weight_map") or {}
    for shard in sorted(set(map(str, shards.values())) if isinstance(shards, dict) else ()):
        if not (folder / shard).is_file():
            raise ModelError(f"model {name!r} has no file {shard!r}, which {INDEX} names; {AGAIN}")
    tensors = shapes(name, folder)
    promised = found.get(CONFIG, {}).get("num_hidden_layers")
    if tensors and isinstance(promised, int) and promised > len(tensors):  # any number would be built
        raise _of_layers(name, promised, tensors, max(_counts(tensors).values(), default=0))


def check_adapter(name: str, folder: Path) -> None:
    """Refuse an adapter: with `peft` installed, transformers would open the model that it names."""
    if (folder / ADAPTER).is_file():
        raise ModelError(f"model {name!r} has {ADAPTER}, which names another model; merge the adapter into its model")


def check_code(name: str, config: PreTrainedConfig) -> None:
    """Refuse a config that names an attention on a hub: transformers (5.23) would fetch and run that code."""
    if (found := getattr(config, "_attn_implementation", None)) not in (None, *ATTENTIONS):
        raise ModelError(
            f"model {name!r} names the attention {found!r} in {CONFIG}, which may be code of a hub; "
            f"expected {' or '.join(ATTENTIONS)}, or no such line"
        )
    for part in config.sub_configs:
        if isinstance(inner := getattr(config, part, None), PreTrainedConfig):
            check_code(name, inner)


def shapes(name: str, folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the file and the shape of each tensor."""
    found = dict[str, tuple[str, tuple[int, ...]]]()
    for file in sorted(path for path in folder.glob("model*.safetensors") if path.is_file()):
        try:
            with safe_open(file, "pt") as opened:
                found |= {key: (file.name, tuple(opened.get_slice(key).get_shape())) for key in opened.keys()}
        except (SafetensorError, OSError) as error:
            size = file.stat().st_size
            why = f"{file.name} is damaged: {error}; found {size:,} bytes, expected a whole safetensors file"
            raise _unloadable(name, why) from error
    return found


def check_weights(name: str, model: PreTrainedModel, where: str, report: Mapping[str, Iterable[str]]) -> None:
    """Refuse weights that transformers would make up or drop: random weights, or more layers than it builds."""
    counts, missing = _counts(model.state_dict()), sorted(report["missing_keys"])
    beyond = [
        key
        for key in report["unexpected_keys"]
        if (at := NUMBERED.match(key)) and int(at[2]) >= counts.get(at[1], 10**9)
    ]
    layered = [key for key in missing if NUMBERED.match(key)]
    tensors = shapes(name, Path(where)) if beyond or missing else {}  # empty for a hub
    held = _counts(tensors)
    for where_layers, layers in counts.items():
        if (layered or beyond) and held.get(where_layers, layers) != layers:
            raise _of_layers(name, layers, tensors, held.get(where_layers, 0))
    if missing:
        raise ModelError(
            f"model {name!r} lacks {len(missing)} of its weights, {missing[0]!r} among them, which {CONFIG} requires: "
            f"{_files(tensors)} {len(tensors)} others; {AGAIN}"
        )


def check_tokenizer(name: str, tokenizer: PreTrainedTokenizerBase, rows: int) -> None:
    """Refuse a tokenizer without words, or with more tokens than the model has rows.

    Only added tokens may be beyond the `rows` of the embedding table: some models never had rows for them.
    """
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise ModelError(
            f"model {name!r} has no tokenizer; expected tokenizer.json, or its family's own files, in the same folder"
        )
    if tokenizer.vocab_size > rows:
        raise ModelError(
            f"model {name!r} has the tokenizer of another model: it has {tokenizer.vocab_size:,} tokens, and the "
            f"weights have {rows:,} rows of embeddings; put the model's own tokenizer.json beside them"
        )


def misfit(name: str, where: str, config: PreTrainedConfig) -> ModelError:
    """Return the error for weights that do not have the shapes in config.json."""
    with torch.device("meta"):
        asked = {
            key: tuple(value.shape) for key, value in AutoModelForCausalLM.from_config(config).state_dict().items()
        }
    for key, (file, shape) in shapes(name, Path(where)).items():
        if asked.get(key, shape) != shape:
            found, required = (" x ".join(map(str, sizes)) for sizes in (shape, asked[key]))
            return _unloadable(name, f"{file} holds {key!r} in shape {found}, but {CONFIG} requires {required}")
    return _unloadable(name, f"its weights do not have the shapes that {CONFIG} requires")


def _unloadable(name: str, why: str) -> ModelError:
    return ModelError(f"model {name!r} cannot be loaded: {why}; {AGAIN}")


def _json(name: str, file: Path) -> JSON:
    try:
        found = json.loads(text_of(file))
    except (OSError, ValueError, RecursionError) as error:
        raise _unloadable(name, f"{file.name} is not a valid JSON file ({str(error).splitlines()[0]})") from error
    if not isinstance(found, dict):
        raise _unloadable(name, f"{file.name} contains {type(found).__name__}, expected a JSON object")
    return found


def _of_layers(name: str, promised: int, tensors: Mapping[str, tuple[str, object]], count: int) -> ModelError:
    return _unloadable(name, f"{CONFIG} specifies {promised} layers, but {_files(tensors)} {count}")


def _counts(names: Iterable[str]) -> dict[str, int]:
    """Return the number of layers by their path."""
    found = dict[str, int]()
    for at in filter(None, map(NUMBERED.match, names)):
        found[at[1]] = max(found.get(at[1], 0), int(at[2]) + 1)
    return found


def _files(tensors: Mapping[str, tuple[str, object]]) -> str:
    names = sorted({file for file, _ in tensors.values()})
    return f"{names[0]} holds" if len(names) == 1 else f"{len(names)} files of weights hold"


ABSURD = 1e6
"""Far above all weights of a trained model, and far below one with a flipped exponent bit."""
SCALES = ".scales"
"""Suffix of buffers of packed weights."""


def diagnose_nan(model: PreTrainedModel) -> str:
    """Return a clause that names damaged weights and their file; empty if none are found.

    If the digests of the files are known, it reads the files; otherwise it checks every weight on a device.
    """
    folder = Path(model.name_or_path or "")
    if model.name_or_path and (files := changed(folder)):
        return f"{str(folder / files[0])!r} is not what it was when its digest was recorded; fetch it again"
    for name, value in _weights(model):
        low, high = value.aminmax()
        most = max(-float(low), float(high))
        if not most < ABSURD:  # also true for NaN
            holds = f"{_file(folder, name)} {name!r} with values up to {most:g}"
            return f"{holds}; expected finite and small ones, fetch it again"
    return ""


def _weights(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    scales = ((name, each) for name, each in model.named_buffers() if name.endswith(SCALES))
    for name, value in (*model.named_parameters(), *scales):  # other buffers may contain -inf on purpose
        if value.is_floating_point() and value.numel() and not value.is_meta:
            yield name, value


def _file(folder: Path, tensor: str) -> str:
    try:
        files = {name: file for name, (file, _) in shapes(str(folder), folder).items()}
    except ModelError:
        files = {}
    return f"{str(folder / files[tensor])!r} holds" if tensor in files else "the model holds"
