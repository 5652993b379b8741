"""Read a model and its tokenizer from where they lie: a folder, a hub, a GGUF file. No pickle, no remote code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
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
from transformers.utils.hub import cached_file

from sottovoce.errors import ModelError
from sottovoce.models.huggingface.devices import Place, device_map, entry, on_cpu, placed
from sottovoce.models.huggingface.formats import Dtype
from sottovoce.models.huggingface.pack import format_of, pack
from sottovoce.models.huggingface.packed import GROUP, ROWS, Packing
from sottovoce.models.huggingface.quiet import quiet
from sottovoce.models.huggingface.reordered import reorder
from sottovoce.models.huggingface.sound import (
    CONFIG,
    check_code,
    check_files,
    check_tokenizer,
    check_weights,
    misfit,
    reading,
    reason,
)
from sottovoce.models.sources.blocks import Blocks

Report = Mapping[str, Iterable[str]]
MISMATCHED = "ignore_mismatched_sizes"
"""In what transformers (5.23) raises where shapes of weights are not those that config.json asks for."""


def read(
    name: str, where: str, dtype: Dtype, place: Place, packing: Packing | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model and the tokenizer that lie at `where` (see `ready`), on their device; `name` is for errors.

    `dtype` and `packing` as they were settled.

    Raises:
        ModelError: pickled or damaged weights, a hub out of reach, a device that is not there, a package that they
            need, a checkpoint that is quantised already and is to be packed.
    """
    quiet()
    if Path(where).is_dir():
        check_files(name, Path(where))
    tokenizer = tokenizer_at(name, where)
    with reading(name, CONFIG):
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
        check_code(name, config)
        quantised = _is_quantised(name, config, packing)
    with reading(name):
        model, report = _weighed(name, where, config, dtype, place, quantised=quantised)
    check_weights(name, model, where, report)
    table: Any = model.get_input_embeddings().weight  # Any: a tensor, which the types of modules do not tell
    check_tokenizer(name, tokenizer, len(table))
    model = placed(model, place)
    if quantised:
        _check_computes(name, model)
    if packing is None:
        reorder(model)
    else:
        _pack(name, model, packing, Path(where))
    return model, tokenizer


def _weighed(
    name: str, where: str, config: PreTrainedConfig, dtype: Dtype, place: Place, *, quantised: bool
) -> tuple[PreTrainedModel, Report]:
    """The model, and what transformers found too much and too little in its files."""
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(  # Any: with its report, a pair that the types do not know
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
            raise ModelError(misfit(name, where, config)) from error
        raise
    model, report = loaded
    return model, report


def tokenizer_at(name: str, where: str) -> PreTrainedTokenizerBase:
    """The tokenizer that lies at `where` (see `ready`); `name` is for errors.

    Raises:
        ModelError: a hub out of reach, or files that are no tokenizer.
    """
    quiet()
    with reading(name, "tokenizer" if Path(where).is_dir() else ""):
        return _tokenizer(where)


def _pack(name: str, model: PreTrainedModel, packing: Packing, folder: Path) -> None:
    try:
        pack(model, packing, Blocks(folder))
    except SafetensorError as error:
        raise ModelError(f"model {name!r} cannot be packed: its blocks are damaged ({reason(error)})") from error
    if format_of(model) != packing:
        raise ModelError(
            f"model {name!r} has no matrix that {packing} could hold: expected linear maps of {ROWS} n rows and "
            f"{GROUP} m columns; give weights float32"
        )


def _tokenizer(where: str) -> PreTrainedTokenizerBase:
    """The tokenizer exactly as its tokenizer.json describes it.

    AutoTokenizer (transformers 5.23) makes a `qwen2` of every model of that type, and that class splits
    words by Qwen's own pattern whatever the file says: other tokens than the model was trained on.
    """
    described = cached_file(where, "tokenizer.json", _raise_exceptions_for_missing_entries=False)
    kind = PreTrainedTokenizerFast if described else AutoTokenizer
    tokenizer: PreTrainedTokenizerBase = kind.from_pretrained(where, trust_remote_code=False)
    return tokenizer


def _is_quantised(name: str, config: PreTrainedConfig, packing: Packing | None) -> bool:
    """Whether a checkpoint is quantised. What would be unpacked at the first pass is unpacked as it is read.

    Raises:
        ModelError: quantised in a way that transformers does not know, or to be packed in another way yet.
    """
    found: dict[str, Any] | None = getattr(config, "quantization_config", None)  # Any: JSON, as the checkpoint has it
    if not found:
        return False
    if not AutoHfQuantizer.supports_quant_method(found):
        raise ModelError(
            f"model {name!r} is quantised as {found.get('quant_method')!r}, "
            f"which transformers {transformers.__version__} cannot read; use another version of the model"
        )
    if packing:
        raise ModelError(
            f"model {name!r} is quantised as {found.get('quant_method')!r} and cannot be packed in {packing} too; "
            "leave weights at auto, or use the checkpoint that it was made of"
        )
    if found.get("quant_method") == "compressed-tensors":
        found["dequantize"] = True  # else its first pass unpacks the weights, and puts bars on the terminal
    return True


def _check_computes(name: str, model: PreTrainedModel) -> None:
    """Run one token through a quantised model, since some kinds find only then that they cannot compute here."""
    ids = torch.zeros(1, 1, dtype=torch.long, device=entry(model.get_input_embeddings()))
    try:
        with torch.no_grad():
            model(input_ids=ids)
    except Exception as error:  # whatever a package of kernels breaks on
        first = str(error).strip().split("\n")[0]
        raise ModelError(
            f"model {name!r} is quantised and cannot compute in {model.dtype} on {ids.device}: {first}; "
            "leave the dtype to the checkpoint (auto), or choose another device"
        ) from error
