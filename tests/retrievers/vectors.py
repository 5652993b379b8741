"""Encoders for tests: one of counted words, and a tiny DPR whose weights are set so that it counts them too."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import torch
from langchain_core.embeddings import Embeddings
from transformers import BertTokenizer, DPRConfig, DPRQuestionEncoder

WIDTH = 64


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


def tiny_dpr(folder: Path, words: list[str]) -> Path:
    """A question encoder whose pooled vector is the mean of its words' random vectors.

    Attention is uniform (queries and keys are zero), values pass unchanged, positions and the feed-forward
    layer add nothing.
    """
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(words))]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    config = DPRConfig(
        vocab_size=len(vocabulary), hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    model = DPRQuestionEncoder(config)
    parameters = {name.partition("bert_model.")[2]: each.data for name, each in model.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    for name, values in parameters.items():
        if name.endswith(("value.weight", "attention.output.dense.weight")):
            values.copy_(torch.eye(WIDTH))
        elif "LayerNorm" not in name:
            values.zero_()
        if name.endswith("word_embeddings.weight"):
            values.copy_(torch.randn(values.shape, generator=generator))
            values[:5] = 0
    model.save_pretrained(folder)
    return folder
