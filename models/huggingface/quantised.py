"""Checkpoints with quantised weights, as far as transformers and the package of their kind load them."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.quantizers.auto import AutoHfQuantizer

from sottovoce.errors import ModelError
from sottovoce.models.huggingface.devices import entry


def is_quantised(name: str, config: PreTrainedConfig) -> bool:
    """Whether a checkpoint is quantised. What would be unpacked at the first pass is unpacked as it is read.

    Raises:
        ModelError: quantised in a way that transformers does not know.
    """
    found: dict[str, Any] | None = getattr(config, "quantization_config", None)  # Any: JSON, as the checkpoint has it
    if not found:
        return False
    if not AutoHfQuantizer.supports_quant_method(found):
        raise ModelError(
            f"model {name!r} is quantised as {found.get('quant_method')!r}, "
            f"which transformers {transformers.__version__} cannot read; use another version of the model"
        )
    if found.get("quant_method") == "compressed-tensors":
        found["dequantize"] = True  # else its first pass unpacks the weights, and puts bars on the terminal
    return True


def check_computes(name: str, model: PreTrainedModel) -> None:
    """Run one token through a quantised model, since some kinds find only then that they cannot compute here.

    Raises:
        ModelError: they cannot.
    """
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
