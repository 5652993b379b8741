"""A tiny sentence encoder with random weights in the layout of sentence-transformers, written file by file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, BertTokenizer

WORDS = (
    "query passage : ana brook built the mill of harrow on river tamsin bees make honey from nectar who what".split()
)
WIDTH = 8
LIBRARY = "sentence_transformers.models."


def tiny_encoder(
    folder: Path,
    pooling: dict[str, Any] | None = None,  # Any, here and below: JSON
    modules: tuple[str, ...] = ("Transformer", "Pooling", "Normalize"),
    said: dict[str, Any] | None = None,
    sizes: dict[str, Any] | None = None,
    activation: str = "torch.nn.modules.activation.Tanh",
) -> Path:
    """Write the encoder; `said` is its config_sentence_transformers.json, `sizes` its sentence_bert_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=32, **shape)).save_pretrained(folder)
    listed = []
    for at, kind in enumerate(modules):
        path = f"{at}_{kind}" if at else ""
        (folder / path).mkdir(exist_ok=True)
        listed.append({"idx": at, "name": str(at), "path": path, "type": f"{LIBRARY}{kind}"})
        if kind == "Pooling":
            told = {"word_embedding_dimension": WIDTH, **(pooling or {"pooling_mode_mean_tokens": True})}
            (folder / path / "config.json").write_text(json.dumps(told))
        if kind == "Dense":
            layer = {"in_features": WIDTH, "out_features": 4, "bias": True, "activation_function": activation}
            (folder / path / "config.json").write_text(json.dumps(layer))
            weights = {"linear.weight": torch.randn(4, WIDTH), "linear.bias": torch.randn(4)}
            save_file(weights, folder / path / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said or {}))
    (folder / "sentence_bert_config.json").write_text(json.dumps(sizes or {}))
    return folder
