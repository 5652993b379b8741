"""Tiny checkpoints as the kinds of quantisation save them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM

from tests.support import tiny_model, tiny_tokenizer

BLOCK = 16  # divides every width of the tiny model
PACKED = "pack-quantized"


def plain(folder: Path, seed: int = 0) -> None:
    """A checkpoint without quantisation, and what the others are made of."""
    tiny_model(seed=seed, max_position_embeddings=4096).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)


def fp8(folder: Path, seed: int = 0) -> None:
    """8-bit floats with a scale for each block, as DeepSeek's; a machine without their kernels computes in bfloat16."""
    plain(folder, seed)
    tensors = load_file(folder / "model.safetensors")
    for name, weight in _linear(seed):
        blocks = weight.unflatten(0, (-1, BLOCK)).unflatten(2, (-1, BLOCK))  # (rows, BLOCK, columns, BLOCK)
        scale = blocks.abs().amax((1, 3), keepdim=True) / torch.finfo(torch.float8_e4m3fn).max
        tensors[f"{name}.weight"] = (blocks / scale).reshape(weight.shape).to(torch.float8_e4m3fn)
        tensors[f"{name}.weight_scale_inv"] = scale[:, 0, :, 0].contiguous()
    _save(folder, tensors, {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK]})


def compressed(folder: Path, seed: int = 0) -> None:
    """8-bit integers, four in a word, with a scale for each row, as llm-compressor saves them."""
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config

    plain(folder, seed)
    rows = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    config = QuantizationConfig(
        config_groups={"group_0": {"targets": ["Linear"], "weights": rows}},
        ignore=["lm_head"],
        format=PACKED,
        quantization_status="compressed",
    )
    model = tiny_model(seed=seed)
    apply_quantization_config(model, config)
    for name, weight in _linear(seed):
        scale = weight.abs().amax(1, keepdim=True) / 127
        model.get_submodule(name).weight_scale.data = scale
    compressor = ModelCompressor.from_pretrained_model(model, quantization_format=PACKED)
    compressor.compress_model(model)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    compressor.update_config(folder)


def torchao(folder: Path, seed: int = 0) -> None:
    """8-bit integers in a tensor class of torchao's."""
    quantization = pytest.importorskip("torchao.quantization")
    from transformers import TorchAoConfig

    plain(folder, seed)
    config = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    AutoModelForCausalLM.from_pretrained(folder, quantization_config=config).save_pretrained(folder)


KINDS: list[Callable[[Path, int], None]] = [fp8, compressed, torchao]


def _linear(seed: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and weights of the layers' linear maps."""
    for name, module in tiny_model(seed=seed).named_modules():
        if isinstance(module, nn.Linear) and name != "lm_head":
            yield name, module.weight.detach()


def _save(folder: Path, tensors: dict[str, torch.Tensor], quantisation: dict[str, object]) -> None:
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": quantisation}))
