"""Loading of a model and its tokenizer from a folder or a hub. No pickle, no remote code."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.quantizers.auto import AutoHfQuantizer
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import ModelError
from sottovoce.models.huggingface.checkpoint_check import (
    AGAIN,
    CONFIG,
    check_adapter,
    check_code,
    check_files,
    check_generation,
    check_templates,
    check_tokenizer,
    check_weights,
    reading,
)
from sottovoce.models.huggingface.devices import Place, device_map, on_cpu, placed
from sottovoce.models.huggingface.formats import Dtype
from sottovoce.models.huggingface.packed_weights import GROUP, ROWS, Packing
from sottovoce.models.huggingface.packing import format_of, pack

Report = Mapping[str, Iterable[str]]
MISMATCHED = "ignore_mismatched_sizes"
"""Part of the error that transformers (5.23) raises if weights do not have the shapes in config.json."""


def read(
    name: str, where: str, dtype: Dtype, place: Place, packing: Packing | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model and the tokenizer at `where` (see `ready`), on their device; `name` is for errors.

    `dtype` and `packing` are those that `settled` returns.

    Raises:
        ModelError: pickled or damaged weights, an unreachable hub, a missing device or package, or a checkpoint that
            is already quantized and should be packed.
    """
    quiet()
    check_adapter(name, Path(where))
    tokenizer = tokenizer_at(name, where)
    with reading(name, CONFIG):
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
        check_code(name, config)
        quantised = _is_quantised(name, config, packing)
    if Path(where).is_dir():
        check_files(name, Path(where), config)
    with reading(name):
        model, report = _weighed(name, where, config, dtype, place, quantised=quantised)
    check_generation(name, model.generation_config)
    check_weights(name, model, where, report)
    table: Any = model.get_input_embeddings().weight  # Any: a tensor, but modules type it otherwise
    check_tokenizer(name, tokenizer, len(table))
    model = placed(model, place)
    if packing is not None:
        pack(model, packing)
        if format_of(model) != packing:
            raise ModelError(
                f"model {name!r} has no matrix that {packing} can store: expected linear maps of {ROWS} n rows and "
                f"{GROUP} m columns; give weights float32"
            )
    return model, tokenizer


def _weighed(
    name: str, where: str, config: PreTrainedConfig, dtype: Dtype, place: Place, *, quantised: bool
) -> tuple[PreTrainedModel, Report]:
    """Return the model, and transformers' report of unexpected and missing weights."""
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(  # Any: with a report, an untyped pair
            where,
            config=config,
            output_loading_info=True,
            dtype=torch.float32 if dtype == "auto" and on_cpu(place) and not quantised else dtype,
            use_safetensors=True,
            trust_remote_code=False,
            device_map=device_map(place, quantised=quantised),
        )
    except RuntimeError as error:
        if MISMATCHED in str(error):
            raise ModelError(
                f"model {name!r} cannot be loaded: its weights do not have the shapes that {CONFIG} requires; {AGAIN}"
            ) from error
        raise
    model, report = loaded
    return model, report


def tokenizer_at(name: str, where: str) -> PreTrainedTokenizerBase:
    """Return the tokenizer at `where` (see `ready`), exactly as its tokenizer.json describes it.

    Raises:
        ModelError: an unreachable hub, or invalid tokenizer files.
    """
    quiet()
    check_templates(name, Path(where))
    with reading(name, "tokenizer" if Path(where).is_dir() else ""):
        # AutoTokenizer (transformers 5.23) uses its Qwen2 class for every model of type `qwen2`, and that class splits
        # words by Qwen's own pattern whatever the file says: other tokens than the model was trained on.
        described = cached_file(where, "tokenizer.json", _raise_exceptions_for_missing_entries=False)
        kind = PreTrainedTokenizerFast if described else AutoTokenizer
        tokenizer: PreTrainedTokenizerBase = kind.from_pretrained(where, trust_remote_code=False)
        return tokenizer


def _is_quantised(name: str, config: PreTrainedConfig, packing: Packing | None) -> bool:
    """Return True if a checkpoint is quantized. If it would be unpacked at the first pass, unpack it on loading."""
    found: JSON | None = getattr(config, "quantization_config", None)
    if not found:
        return False
    if not AutoHfQuantizer.supports_quant_method(found):
        raise ModelError(f"model {name!r} is quantized as {found.get('quant_method')!r}, unknown to transformers")
    if packing:
        raise ModelError(
            f"model {name!r} is quantized as {found.get('quant_method')!r} and cannot be packed in {packing} too; "
            "leave weights at auto, or use the checkpoint that it was made from"
        )
    if found.get("quant_method") == "compressed-tensors":
        found["dequantize"] = True  # otherwise its first pass unpacks the weights, with progress bars
    return True


def quiet() -> None:
    """Turn off the libraries' progress bars and retry messages; errors still reach the caller."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for library in ("huggingface_hub", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
