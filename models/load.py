"""Loading by name: callers that name the same model share its weights and its engine.

Untested families are checked when they are loaded: a batch must give the same results as single sequences.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sottovoce.core.bounds import size_of
from sottovoce.core.catalogue import BUNDLED
from sottovoce.core.errors import ModelError, RecordError
from sottovoce.core.event_loop import check_not_forked
from sottovoce.core.files import models_folder, text_of, write
from sottovoce.models.engine.engine import Engine
from sottovoce.models.engine.request import Ids, Record, Request, Rows, Stop
from sottovoce.models.huggingface.chat import ChatTemplate
from sottovoce.models.huggingface.devices import MAP, Device, Place, place_of
from sottovoce.models.huggingface.family import TESTED, layers_read_ids
from sottovoce.models.huggingface.load_files import check_memory, read, tokenizer_at
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.packed_weights import (
    PACKINGS,
    Dtype,
    Packing,
    Weights,
    format_of,
    never_exact,
    settled,
)
from sottovoce.models.loaded import LoadedModel
from sottovoce.models.sources.locate import locate, on_this_machine, ready

_Weights = tuple[str, Dtype, Packing | None, Place, str | None]
"""The location, dtype, packing, place and layers path that must be equal for two calls of `load` to share weights."""
_known: dict[tuple[_Weights, int | None, bool], LoadedModel] = {}
"""Loaded models by their weights and the engine's `memory` and `exact`."""
_loading = threading.Lock()
LOGGER = logging.getLogger(__name__)
TOLERANCE = {  # relative to the largest log-probability: the effect of another order of sums or another kernel
    "float64": 2e-5,
    "float32": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "int8": 3e-2,
    "int4": 3e-2,
}
TEXT = "Three agents discuss a question. Each answers, reads what the others answered, and answers again. "
ONE_BY_ONE = "requests run one at a time, since in a batch this family computes other numbers than alone"
READ = 24  # tokens of the longest prompt, at most


def load(
    name: str | Path = BUNDLED,
    *,
    dtype: Dtype = "auto",
    weights: Weights = "auto",
    device: Device = "auto",
    layers_path: str | None = None,
    memory: int | str | None = None,
    exact: bool = False,
) -> LoadedModel:
    """Return a loaded model; equal arguments return the same object, so agents share its engine.

    `dtype` "auto" is float32 on a CPU, and the checkpoint's own dtype on an accelerator or if it is
    quantized. `weights` is the storage format of linear maps: the same as `dtype`, or on a CPU "int8" or "int4"; all
    other tensors stay float32. `device` is a torch device, "auto" (an accelerator if there is one), "map" (accelerate
    spreads the model over all devices) or a mapping from modules to devices, which may include "disk". `memory` and
    `exact` are passed to the engine: bytes for keys and values, and bitwise equal results in any batch. Engines that
    differ in them share the weights.

    Raises:
        ModelError: no such model, a folder without a model, pickled or damaged weights, a missing package, a format
            that the machine, the model or `exact` rules out, or too little memory.
        UsageError: this process was forked from one that had loaded a model.
    """
    place, memory = place_of(device), size_of(memory)
    dtype, packing = settled(dtype, weights, place, exact=exact)
    wanted = (locate(name), dtype, packing, place, layers_path)
    key = (wanted, memory, exact)
    with _loading:
        if key not in _known:
            other = next((loaded for (same, *_), loaded in _known.items() if same == wanted), None)
            if other is None:
                check_not_forked("torch")
                where = ready(wanted[0])
                check_memory(str(name), Path(where), dtype, packing, place)
                start = time.monotonic()
                model, tokenizer = read(str(name), where, dtype, place, packing)
                LOGGER.info("loaded %s from %s in %.1f s", name, where, time.monotonic() - start)
                limits: dict[str, Any] = {"memory": memory, "exact": exact}  # Any: as `assemble` has it
                found = assemble(str(name), model, tokenizer, layers_path=layers_path, **limits)
                files = sorted(file for file in Path(where).iterdir() if file.is_file())
                times = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
                of = f"{version('transformers')} {version('torch')} {wanted} {times}"
                # now: an engine that computes cannot fetch spread weights
                vars(found)["weights_key"] = remembered("weights", of, lambda: found.weights_key)
                spread = place == MAP or not isinstance(place, str)  # accelerate puts each module in its place
                _known[key] = found if spread else check_batches(found)
            else:
                _known[key] = other.varied(engine=other.engine.twin(memory=memory, exact=exact))
        return _known[key]


def load_tokenizer(name: str | Path = BUNDLED) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a model on this machine, which a run may name: no hub is asked, nothing is converted.

    Raises:
        ModelError: no such model on this machine, or invalid tokenizer files.
    """
    return tokenizer_at(str(name), on_this_machine(name))


def unload(name: str | Path = BUNDLED) -> bool:
    """Forget a loaded model under all its dtypes and devices and close its engine; return False if it was not loaded.

    Requests that were already submitted are still answered. Graphs and agents that use the model keep it and
    its memory alive until they are freed too.
    """
    where = locate(name)
    with _loading:
        found = [_known.pop(key) for key in list(_known) if key[0][0] == where]
    had = bool(found)
    while found:
        found.pop().engine.close()
    gc.collect()  # accelerate's hooks make reference cycles
    return had


def assemble(
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    layers_path: str | None = None,
    threads: int | None = None,
    **limits: Any,
) -> LoadedModel:
    """Return a loaded model made from a model and a tokenizer that are already in memory.

    `threads` and `limits` (Any: `max_batch`, `memory`, `exact`, `reuse`) are passed to the engine.
    """
    if limits.get("exact") and format_of(model) in PACKINGS:
        raise ModelError(never_exact(format_of(model)))
    chat = ChatTemplate(tokenizer)
    chat.check()
    network = Network(model, max(tokenizer.get_vocab().values()) + 1, layers_path)
    if threads is None and network.small:  # too little work to split over two threads
        threads = 1
    engine = Engine(network, tokenizer, threads=threads, **limits)
    return LoadedModel(name, model, tokenizer, network, engine, chat)


def allowed(loaded: LoadedModel) -> float:
    """Return how far a batch may be from the model alone."""
    return TOLERANCE.get(loaded.format, TOLERANCE["bfloat16"])


def apart(loaded: LoadedModel) -> float:
    """Return how far two tokens after each prompt of one batch are from the model alone, as a share of their scale.

    The prompts differ in length, and one is given by the rows of its embeddings, as CIPHER gives messages.
    """
    prompt = loaded.chat.ids(TEXT)[: min(READ, (loaded.network.context or 2 * READ) // 2)]
    half = prompt[: len(prompt) // 2]
    prompts: list[tuple[tuple[int, ...], Ids | Rows]] = [(prompt, Ids(prompt)), (half, Ids(half))]
    if not layers_read_ids(loaded.model):
        ids = torch.tensor(prompt, device=loaded.network.device)
        prompts.append((prompt, Rows(loaded.network.embed(ids).detach())))
    requests = [Request((piece,), Stop(2), record=Record(stats=True, top=len(loaded.table))) for _, piece in prompts]
    worst = 0.0
    for (ids_before, _), reply in zip(prompts, loaded.engine.twin(reuse=False).run_all(requests), strict=True):
        assert reply.stats is not None, "requested"
        whole = torch.empty(len(reply.ids), len(loaded.table))  # (n, V), in the order of the ids
        for i, found in enumerate(whole.scatter_(1, reply.stats.top_ids, reply.stats.top_logprobs)):
            right = _alone(loaded, (*ids_before, *reply.ids[:i]))
            worst = max(worst, float(((found - right).abs().max() / right.abs().max()).nan_to_num(torch.inf)))
    return worst


def check_batches(loaded: LoadedModel) -> LoadedModel:
    """Return a model that runs one request at a time if a batch of its family gives other numbers.

    The result is kept by the digest of the configuration. Any other failure is left to the first request.
    """
    config = loaded.model.config.get_text_config()
    if config.model_type in TESTED:
        return loaded
    what = f"{version('transformers')} {loaded.format} {config.to_json_string(use_diff=False)}"
    with suppress(Exception):
        if remembered("checked", what, lambda: "together" if apart(loaded) <= allowed(loaded) else "alone") == "alone":
            loaded.network.one_by_one = True
            LOGGER.warning("%s: %s", loaded.name, ONE_BY_ONE)
            return loaded.varied(engine=loaded.engine.twin())
    return loaded


def remembered(folder: str, subject: str, compute: Callable[[], str]) -> str:
    """Return a value that is computed once on this machine for a description, and cached in the folder of models."""
    file = models_folder() / folder / hashlib.sha256(subject.encode()).hexdigest()[:32]
    with suppress(OSError):
        return text_of(file)
    value = compute()
    with suppress(OSError, RecordError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, value)
    return value


@torch.inference_mode()
def _alone(loaded: LoadedModel, prompt: tuple[int, ...]) -> torch.Tensor:
    """Return the log-probabilities (V,) after a prompt, from the model without our engine."""
    ids = torch.tensor([prompt], device=loaded.network.device)
    logits: torch.Tensor = loaded.model(input_ids=ids, use_cache=False).logits
    return logits[0, -1, : len(loaded.table)].float().log_softmax(-1).cpu()
