"""Sentence encoders and cross-encoders as their files describe them: loaded from safetensors alone, without code."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from sottovoce.core.errors import CorpusError, ModelError
from sottovoce.retrievers import Hit
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.encoders import CrossEncoder, Reranked, SentenceEncoder
from tests.retrievers.support import MILL, QUESTION, docids
from tests.retrievers.vectors import tiny_encoder

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own: of older names in files, of what it imports


def test_a_prompt_of_the_files_stands_before_queries_and_another_before_passages(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "query : ", "document": "passage : "}}
    folder = str(tiny_encoder(tmp_path / "prompted", said=prompts))
    plain = SentenceEncoder(folder, query_prompt="", passage_prompt="")
    as_said, as_given = SentenceEncoder(folder), SentenceEncoder(folder, query_prompt="passage : ")

    assert as_said.embed_query("honey") == plain.embed_query("query : honey")
    assert as_said.embed_documents(["honey"]) == plain.embed_documents(["passage : honey"])
    assert as_given.embed_query("honey") == plain.embed_query("passage : honey") != plain.embed_query("honey")


def test_texts_are_embedded_in_batches_as_they_are_alone(tmp_path: Path) -> None:
    encoder = SentenceEncoder(str(tiny_encoder(tmp_path)))
    texts = [each.contents for each in MILL] * 9  # more than a batch

    together = encoder.embed_documents(texts)

    assert together == encoder.embed_documents(texts)
    for text, vector in zip(texts[:5], together, strict=False):
        assert vector == pytest.approx(encoder.embed_query(text), abs=1e-5)  # float32 sums in another order


@pytest.mark.parametrize(("similarity", "unit"), [(None, True), ("cosine", True), ("dot", False)])
def test_vectors_have_unit_length_unless_the_files_compare_by_inner_product(
    tmp_path: Path, similarity: str | None, unit: bool
) -> None:
    said = {"similarity_fn_name": similarity}
    encoder = SentenceEncoder(str(tiny_encoder(tmp_path, modules=("Transformer", "Pooling"), said=said)))
    assert (math.dist(encoder.embed_query("honey"), [0] * 8) == pytest.approx(1)) is unit


def refused(folder: Path, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint) as told:
        SentenceEncoder(str(folder)).embed_query("honey")
    assert "\n" not in str(told.value)


def test_what_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    said: dict[str, Any] = {"similarity_fn_name": "euclidean"}
    refused(tiny_encoder(tmp_path / "1", said=said), r"is compared by 'euclidean'; expected cosine or dot$")
    refused(tiny_encoder(tmp_path / "2", pooling={"pooling_mode": "middle"}), r"^model '.*' cannot be loaded: ")
    broken = tiny_encoder(tmp_path / "3")
    (broken / "modules.json").write_text("{")
    refused(broken, r"^model '.*' cannot be loaded: ")


def test_no_file_brings_code_and_no_pickle_is_read(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "encoder")
    listed = json.loads((folder / "modules.json").read_text())
    (folder / "evil.py").write_text("raise SystemExit('it was run')\nclass Pooling: pass")
    for name in ("evil.Pooling", "os.system", "subprocess.Popen"):
        (folder / "modules.json").write_text(json.dumps([listed[0], {**listed[1], "type": name}]))
        refused(folder, "it needs code of its own, which is never run|cannot be loaded")
    config = json.loads((folder / "config.json").read_text())
    own = tiny_encoder(tmp_path / "own")
    (own / "config.json").write_text(json.dumps({**config, "model_type": "x", "auto_map": {"AutoConfig": "evil.X"}}))
    refused(own, "cannot be loaded")
    pickled = tiny_encoder(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    refused(pickled, r"has weights in 'pytorch_model\.bin', a pickle; expected model\.safetensors$")


def cross_encoder(folder: Path, outputs: int = 1) -> Path:
    """A tiny one with random weights."""
    tiny_encoder(folder, modules=())
    for name in ("modules.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    torch.manual_seed(0)
    config = BertConfig.from_pretrained(folder, num_labels=outputs)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_cross_encoder_scores_the_first_hits_again(tmp_path: Path) -> None:
    encoder = CrossEncoder(str(cross_encoder(tmp_path)), device="cpu")
    index = BM25Index.build(MILL)

    found = Reranked(index, encoder, depth=3).search(QUESTION, 2)

    first = index.search(QUESTION, 3)
    alone = {hit.passage.docid: encoder.rerank(QUESTION, [hit])[0].score for hit in first}
    assert docids(found) == sorted(alone, key=lambda docid: -alone[docid])[:2]
    assert [hit.score for hit in found] == pytest.approx([alone[docid] for docid in docids(found)], abs=1e-5)
    assert Reranked(index, encoder).search("zzz", 2) == []


def test_a_cross_encoder_has_one_output(tmp_path: Path) -> None:
    encoder = CrossEncoder(str(cross_encoder(tmp_path, outputs=2)))
    with pytest.raises(ModelError, match=r"has 2 outputs; expected one, a score$"):
        encoder.rerank("a", [Hit(MILL[0], 1.0)])
    with pytest.raises(CorpusError, match=r"^there is no encoder in 'nowhere'"):
        CrossEncoder("nowhere")
