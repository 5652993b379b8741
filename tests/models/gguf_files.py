"""Tiny Llamas as GGUF files, written with the gguf package as llama.cpp's converter writes them."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy
from numpy.typing import NDArray
from transformers import PreTrainedModel

from tests.support import CHATML, tiny_model, tiny_tokenizer

CONTROL, NORMAL = 3, 1  # kinds of tokens
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
Array = NDArray[numpy.float32]


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    split: str = "smollm",
    without: str = "",
    parts: int = 1,
    model: PreTrainedModel | None = None,
) -> Path:
    """A tiny Llama whose matrices have one `kind`; `without` names a tensor that is left out."""
    model = model or tiny_model("llama")
    writer = gguf.GGUFWriter(path, architecture)
    _shape(writer, model)
    _tokenizer(writer, split)
    if parts > 1:
        writer.add_uint16("split.count", parts)
    for name, array in tensors(model).items():
        if name == without:
            continue
        own = kind if array.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(array, own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(model: PreTrainedModel) -> dict[str, Array]:
    """The weights of a Llama under their names in a GGUF file, rows of queries and keys in its order."""
    found = {}
    for name, weight in model.state_dict().items():
        module = name.removesuffix(".weight")
        array = weight.float().numpy()
        if module.endswith(("q_proj", "k_proj")):
            heads = model.config.num_attention_heads if "q_proj" in module else model.config.num_key_value_heads
            array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        layer = module.removeprefix("model.layers.").partition(".")
        own = f"blk.{layer[0]}.{NAMES[layer[2]]}" if module.startswith("model.layers.") else NAMES[module]
        found[f"{own}.weight"] = numpy.ascontiguousarray(array)
    return found


def _shape(writer: gguf.GGUFWriter, model: PreTrainedModel) -> None:
    config = model.config
    writer.add_name("Tiny")
    writer.add_license("mit")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)


def _tokenizer(writer: gguf.GGUFWriter, split: str) -> None:
    tokenizer = tiny_tokenizer()
    tokens = tokenizer.convert_ids_to_tokens([*range(len(tokenizer))])
    merges = [" ".join(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token.startswith("<|") else NORMAL for token in tokens])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_bos_token_id(0)
    writer.add_chat_template(CHATML)
