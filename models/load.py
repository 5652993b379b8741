"""Load a model by name: the bundled one, a folder, or a hub id. Safetensors only, no remote code."""

from __future__ import annotations

import gc
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from sottovoce.errors import ModelError, choose
from sottovoce.models.chat import ChatTemplate
from sottovoce.models.devices import Device, Place, device_map, is_spread, on_cpu, place_of, placed
from sottovoce.models.engine import Engine
from sottovoce.models.loaded import LoadedModel
from sottovoce.models.network import Network
from sottovoce.models.quantised import check_computes, is_quantised
from sottovoce.models.text import Detokenizer
from sottovoce.sizes import size_of

BUNDLED = "bundled"
BUNDLED_FOLDER = Path(__file__).parent / "bundled"
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class _Asked:
    """What two calls of `load` have in common where they get the same weights."""

    where: str
    dtype: Dtype
    place: Place
    layers_path: str | None


_Limits = tuple[int | None, bool]
_loaded_models: dict[_Asked, dict[_Limits, LoadedModel]] = {}
"""By weights, and for each by the memory and the exactness of its engine."""
_loading = threading.Lock()


def load(
    name: str | Path = BUNDLED,
    *,
    dtype: Dtype = "auto",
    device: Device = "auto",
    layers_path: str | None = None,
    memory: int | str | None = None,
    exact: bool = False,
) -> LoadedModel:
    """Return the loaded model of a model; the same arguments give the same loaded model, so agents share its engine.

    `dtype` auto is float32 on a CPU, and the checkpoint's own on an accelerator or where it is
    quantised. `device` is a torch device, "auto" (an accelerator if there is one), "map" (spread by
    accelerate over all devices) or a mapping from modules to devices, "disk" among them. `memory` and
    `exact` are the engine's: bytes for keys and values, and equal bits whatever the company; engines that
    differ in them share the weights.

    Raises:
        ModelError: no such model, a folder that is no model, pickled or damaged weights, a package that they need.
    """
    asked, memory = _Asked(_locate(name), dtype, place_of(device), layers_path), size_of(memory)
    with _loading:
        loaded_models = _loaded_models.get(asked, {})
        if (memory, exact) not in loaded_models:
            known = next(iter(loaded_models.values()), None)
            loaded_models[memory, exact] = (
                known.behind(known.engine.twin(memory=memory, exact=exact))
                if known
                else _loaded(str(name), asked, memory=memory, exact=exact)
            )
            _loaded_models[asked] = loaded_models
        return loaded_models[memory, exact]


def _loaded(name: str, asked: _Asked, *, memory: int | None, exact: bool) -> LoadedModel:
    model, tokenizer = _read(name, asked.where, asked.dtype, asked.place)
    loaded = assemble(name, model, tokenizer, layers_path=asked.layers_path, memory=memory, exact=exact)
    if is_spread(asked.place):
        _ = loaded.weights_key  # kept: weights cannot be fetched to look at them while the engine computes
    return loaded


def unload(name: str | Path = BUNDLED) -> bool:
    """Forget a loaded model, under all its dtypes and devices, and end its engine; False where there was none.

    What was asked before is still answered. Graphs and agents that used the model hold it, and its
    memory, until they are forgotten too.
    """
    where = _locate(name)
    with _loading:
        found = [
            loaded
            for asked in list(_loaded_models)
            if asked.where == where
            for loaded in _loaded_models.pop(asked).values()
        ]
    had = bool(found)
    while found:
        found.pop().engine.close()
    gc.collect()  # hooks of accelerate tie a model into a ring
    return had


def read(
    name: str | Path = BUNDLED, *, dtype: Dtype = "auto", device: Device = "auto"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model and the tokenizer that `load` makes a loaded model of. Arguments and errors: see `load`."""
    return _read(str(name), _locate(name), dtype, place_of(device))


def assemble(
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    layers_path: str | None = None,
    max_batch: int | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    exact: bool = False,
    reuse: bool = True,
) -> LoadedModel:
    """Make a loaded model of a model and a tokenizer that are in memory already; the last five are the engine's."""
    vocabulary = max(tokenizer.get_vocab().values()) + 1
    network = Network(model, vocabulary, layers_path)
    if threads is None and network.small:  # of little work, which two threads share at a loss
        threads = 1
    detokenizers = {special: Detokenizer(tokenizer, special=special) for special in (False, True)}
    engine = Engine(
        network, detokenizers, max_batch=max_batch, threads=threads, memory=memory, exact=exact, reuse=reuse
    )
    return LoadedModel(name, model, tokenizer, network, engine, ChatTemplate(tokenizer))


def _read(name: str, where: str, dtype: Dtype, place: Place) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    _quiet()
    if dtype not in get_args(Dtype):
        raise ModelError(choose("dtype", dtype, get_args(Dtype)))
    try:
        tokenizer = _tokenizer(where)
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
        quantised = is_quantised(name, config)
        loaded: Any = AutoModelForCausalLM.from_pretrained(  # Any: with its report, a pair that the types do not know
            where,
            config=config,
            output_loading_info=True,
            dtype=torch.float32 if dtype == "auto" and on_cpu(place) and not quantised else dtype,
            use_safetensors=True,
            trust_remote_code=False,
            device_map=device_map(place, quantised=quantised),
        )
    except ModelError:
        raise
    except (OSError, ValueError, KeyError, ImportError, AssertionError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"model {name!r} cannot be loaded: {_reason(error)}") from error
    model, report = loaded
    _check_complete(name, tokenizer, sorted(report["missing_keys"]))
    model = placed(model, place)
    if quantised:
        check_computes(name, model)
    return model, tokenizer


def _reason(error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return "it needs code that it brings along, which is never run; use a model that transformers knows by itself"
    first = str(error).strip().split("\n")[0].rstrip()
    return " ".join(str(error).split()) if first.endswith(":") else first


def _tokenizer(where: str) -> PreTrainedTokenizerBase:
    """The tokenizer exactly as its tokenizer.json describes it.

    AutoTokenizer (transformers 5.23) makes a `qwen2` of every model of that type, and that class splits
    words by Qwen's own pattern whatever the file says: other tokens than the model was trained on.
    """
    described = cached_file(where, "tokenizer.json", _raise_exceptions_for_missing_entries=False)
    kind = PreTrainedTokenizerFast if described else AutoTokenizer
    tokenizer: PreTrainedTokenizerBase = kind.from_pretrained(where, trust_remote_code=False)
    return tokenizer


def _check_complete(name: str, tokenizer: PreTrainedTokenizerBase, missing: list[str]) -> None:
    """Refuse what transformers would make up: random weights, a tokenizer that knows no word."""
    if missing:
        raise ModelError(
            f"model {name!r} lacks {len(missing)} of its weights, {missing[0]!r} among them; fetch it again"
        )
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        raise ModelError(
            f"model {name!r} has no tokenizer; expected tokenizer.json or its family's own files beside it"
        )


def _locate(name: str | Path) -> str:
    """The folder or hub id behind a name, with the mistakes that can be told apart told apart."""
    if str(name) == BUNDLED:
        return str(BUNDLED_FOLDER)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if str(name).count("/") == 1 and not folder.is_absolute() and not str(name).startswith("."):
            return str(name)
        raise ModelError(
            f"unknown model {str(name)!r}; give 'bundled', a folder with config.json and *.safetensors, "
            "or a hub id owner/name"
        )
    if not (folder / "config.json").is_file():
        raise ModelError(f"folder {str(name)!r} is no model: it has no config.json")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        found = f"only pickled weights ({', '.join(pickled)})" if pickled else "no weights"
        raise ModelError(f"model {str(name)!r} has {found}; expected *.safetensors (convert it: a pickle can run code)")
    return str(folder.resolve())


def _quiet() -> None:
    """Keep progress bars and retry notes of the libraries off the terminal; errors still reach the caller."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for library in ("huggingface_hub", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
