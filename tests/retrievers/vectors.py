"""Encoders for tests: one of counted words, a tiny DPR with an index of pyserini's, and tiny sentence encoders."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from langchain_core.embeddings import Embeddings
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, BertTokenizer, DPRConfig, DPRQuestionEncoder

from sottovoce.retrievers import Passage
from sottovoce.retrievers.encoders import DPRQuestions

WIDTH, NARROW = 64, 8
WORDS = (
    "query passage : ana brook built the mill of harrow on river tamsin bees make honey from nectar who what".split()
)
LIBRARY = "sentence_transformers.models."


class Words(Embeddings):
    """A number for each of 64 groups of words: how many of the text's are in it; unit length."""

    def __init__(self, salt: str = "") -> None:
        self.salt = salt

    def embed_query(self, text: str) -> list[float]:
        counts = [0.0] * WIDTH
        for word in text.lower().replace(".", " ").replace("?", " ").split():
            counts[zlib.crc32(f"{self.salt}{word}".encode()) % WIDTH] += 1
        length = math.sqrt(sum(count * count for count in counts))
        return [count / length for count in counts]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def tiny_shape(folder: Path, words: Sequence[str], width: int) -> dict[str, Any]:
    """Write a tokenizer of these words, and return the shape of a model of one layer; its weights are random."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    torch.manual_seed(0)
    layer = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    return {"vocab_size": len(vocabulary), "hidden_size": width, **layer}


def tiny_dpr(folder: Path, words: Sequence[str]) -> Path:
    """A question encoder of one layer with random weights."""
    folder.mkdir(exist_ok=True)
    DPRQuestionEncoder(DPRConfig(**tiny_shape(folder, sorted({*words}), WIDTH))).save_pretrained(folder)
    return folder


def pyserini_index(folder: Path, encoder: DPRQuestions, passages: Sequence[Passage]) -> Path:
    """A FAISS index as pyserini writes one, without a manifest."""
    folder.mkdir()
    vectors = faiss.IndexFlatIP(WIDTH)
    vectors.add(np.array([encoder.embed_query(each.contents) for each in passages], dtype=np.float32))
    faiss.write_index(vectors, str(folder / "index"))
    (folder / "docid").write_text("".join(f"{each.docid}\n" for each in passages))
    return folder


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
    shape = tiny_shape(folder, WORDS, NARROW)
    BertModel(BertConfig(max_position_embeddings=32, **shape)).save_pretrained(folder)
    listed = []
    for at, kind in enumerate(modules):
        path = f"{at}_{kind}" if at else ""
        (folder / path).mkdir(exist_ok=True)
        listed.append({"idx": at, "name": str(at), "path": path, "type": f"{LIBRARY}{kind}"})
        if kind == "Pooling":
            told = {"word_embedding_dimension": NARROW, **(pooling or {"pooling_mode_mean_tokens": True})}
            (folder / path / "config.json").write_text(json.dumps(told))
        if kind == "Dense":
            layer = {"in_features": NARROW, "out_features": 4, "bias": True, "activation_function": activation}
            (folder / path / "config.json").write_text(json.dumps(layer))
            weights = {"linear.weight": torch.randn(4, NARROW), "linear.bias": torch.randn(4)}
            save_file(weights, folder / path / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said or {}))
    (folder / "sentence_bert_config.json").write_text(json.dumps(sizes or {}))
    return folder
