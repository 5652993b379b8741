"""Read a model and its tokenizer from where they lie: a folder, a hub, a GGUF file. No pickle, no remote code."""

from __future__ import annotations

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
from sottovoce.models.sources.blocks import Blocks


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
    try:
        tokenizer = _tokenizer(where)
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
        quantised = _is_quantised(name, config, packing)
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
        _check_computes(name, model)
    if packing is None:
        reorder(model)
    else:
        _pack(name, model, packing, Path(where))
    return model, tokenizer


def tokenizer_at(name: str, where: str) -> PreTrainedTokenizerBase:
    """The tokenizer that lies at `where` (see `ready`); `name` is for errors.

    Raises:
        ModelError: a hub out of reach, or files that are no tokenizer.
    """
    quiet()
    try:
        return _tokenizer(where)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"the tokenizer of {name!r} cannot be loaded: {_reason(error)}") from error


def _pack(name: str, model: PreTrainedModel, packing: Packing, folder: Path) -> None:
    try:
        pack(model, packing, Blocks(folder))
    except SafetensorError as error:
        raise ModelError(f"model {name!r} cannot be packed: its blocks are damaged ({_reason(error)})") from error
    if format_of(model) != packing:
        raise ModelError(
            f"model {name!r} has no matrix that {packing} could hold: expected linear maps of {ROWS} n rows and "
            f"{GROUP} m columns; give weights float32"
        )


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
