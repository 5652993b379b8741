"""Encoders for tests: one of counted words, and a tiny DPR with an index of pyserini's."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from langchain_core.embeddings import Embeddings
from transformers import BertTokenizer, DPRConfig, DPRQuestionEncoder

from sottovoce.retrievers import Passage
from sottovoce.retrievers.encoders import DPRQuestions

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


def tiny_dpr(folder: Path, words: Sequence[str]) -> Path:
    """A question encoder of one layer with random weights."""
    folder.mkdir(exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({*words})]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 8,
    }
    DPRQuestionEncoder(DPRConfig(vocab_size=len(vocabulary), **shape)).save_pretrained(folder)
    return folder


def pyserini_index(folder: Path, encoder: DPRQuestions, passages: Sequence[Passage]) -> Path:
    """A FAISS index as pyserini writes one, without a manifest."""
    folder.mkdir()
    vectors = faiss.IndexFlatIP(WIDTH)
    vectors.add(np.array([encoder.embed_query(each.contents) for each in passages], dtype=np.float32))
    faiss.write_index(vectors, str(folder / "index"))
    (folder / "docid").write_text("".join(f"{each.docid}\n" for each in passages))
    return folder
