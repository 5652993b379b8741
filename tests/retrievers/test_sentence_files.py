"""Sentence encoders as their files describe them, beside the library that writes such files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import T5Config, T5EncoderModel

from sottovoce.core.errors import ModelError
from sottovoce.retrievers.encoders import SentenceEncoder
from sottovoce.retrievers.sentence_files import pooled, sentence_files
from tests.retrievers.sentences import WIDTH, WORDS, tiny_encoder

TEXTS = ["Ana Brook built the mill", "bees make honey from nectar on the river of Harrow", "honey"]
HIDDEN = torch.tensor([[[9.0, 9.0], [1.0, 2.0], [5.0, 0.0], [3.0, 4.0]]])
LEFT_PADDED, RIGHT_PADDED = torch.tensor([[0, 1, 1, 1]]), torch.tensor([[1, 1, 1, 0]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("cls", [1, 2]),
        ("lasttoken", [3, 4]),
        ("max", [5, 4]),
        ("mean", [3, 2]),
        ("mean_sqrt_len_tokens", [9 / math.sqrt(3), 6 / math.sqrt(3)]),
        ("weightedmean", [(1 + 10 + 9) / 6, (2 + 0 + 12) / 6]),
    ],
)
def test_each_pooling_takes_the_tokens_that_are_no_padding(mode: str, expected: list[float]) -> None:
    assert pooled(HIDDEN, LEFT_PADDED, [mode]).tolist() == [pytest.approx(expected)]
    rolled = HIDDEN.roll(-1, dims=1)
    assert pooled(rolled, RIGHT_PADDED, [mode]).tolist() == [pytest.approx(expected)]


def test_a_prompt_can_be_left_out_and_poolings_joined() -> None:
    found = pooled(HIDDEN, LEFT_PADDED, ["cls", "mean", "weightedmean"], prompt=1)
    assert found.tolist() == [pytest.approx([5, 0, 4, 2, (10 + 9) / 5, 12 / 5])]


def test_a_prompt_of_the_files_stands_before_queries_and_another_before_passages(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "query : ", "passage": "passage : "}, "default_prompt_name": "query"}
    folder = str(tiny_encoder(tmp_path / "prompted", said=prompts))
    plain = SentenceEncoder(folder, query_prompt="", passage_prompt="")
    as_said, as_given = SentenceEncoder(folder), SentenceEncoder(folder, query_prompt="passage : ")

    assert as_said.embed_query("honey") == plain.embed_query("query : honey")
    assert as_said.embed_documents(["honey"]) == plain.embed_documents(["passage : honey"])
    assert as_given.embed_query("honey") == plain.embed_query("passage : honey") != plain.embed_query("honey")


def test_a_default_prompt_stands_before_all_texts_unless_it_is_one_for_queries(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path, said={"prompts": {"topic": "river "}, "default_prompt_name": "topic"})
    files = sentence_files(folder)
    assert (files.prompt(("query",)), files.prompt(("document",))) == ("river ", "river ")


def test_the_longest_text_is_that_of_the_files_or_else_of_the_model(tmp_path: Path) -> None:
    short = SentenceEncoder(str(tiny_encoder(tmp_path / "short", sizes={"max_seq_length": 4})))
    whole = SentenceEncoder(str(tiny_encoder(tmp_path / "whole")))

    assert short.embed_query("ana brook built the mill") == short.embed_query("ana brook")
    assert whole.embed_query("ana brook " * 40) == whole.embed_query("ana brook " * 15)
    assert whole.embed_query("ana brook " * 15) != whole.embed_query("ana brook " * 14)


@pytest.mark.parametrize(("similarity", "length"), [(None, 1.0), ("cosine", 1.0), ("dot", None)])
def test_vectors_have_unit_length_unless_the_files_compare_by_inner_product(
    tmp_path: Path, similarity: str | None, length: float | None
) -> None:
    said = {"similarity_fn_name": similarity}
    encoder = SentenceEncoder(str(tiny_encoder(tmp_path, modules=("Transformer", "Pooling"), said=said)))
    found = math.dist(encoder.embed_query("honey"), [0] * 8)
    assert (found == pytest.approx(1)) is (length is not None)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"modules": ("Transformer", "LSTM", "Pooling")}, r"has the modules Transformer, LSTM, Pooling; expected Tr"),
        ({"pooling": {"pooling_mode": "middle"}}, r"pools by 'middle'; expected cls, max, mean, "),
        (
            {"said": {"similarity_fn_name": "euclidean"}},
            r"is compared by 'euclidean'; expected cosine or dot; in Python you can pass any other",
        ),
    ],
)
def test_what_is_not_known_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    folder = tiny_encoder(tmp_path, **change)
    with pytest.raises(ModelError, match=rf"^model '.*' {complaint}") as refused:
        SentenceEncoder(str(folder)).embed_query("honey")
    assert "\n" not in str(refused.value)


def test_half_of_an_encoder_decoder_is_loaded_alone_whatever_its_files_say(tmp_path: Path) -> None:
    """T5 as sentence-transformers saves it (`is_encoder_decoder` is false) was loaded whole, and failed at once."""
    folder = tiny_encoder(tmp_path)
    shape: dict[str, Any] = {
        "d_model": WIDTH,
        "d_kv": 4,
        "d_ff": 8,
        "num_layers": 1,
        "num_heads": 2,
        "is_encoder_decoder": False,
    }
    T5EncoderModel(T5Config(vocab_size=5 + len(WORDS), pad_token_id=0, **shape)).save_pretrained(folder)

    vectors = SentenceEncoder(str(folder)).embed_documents(["bees make honey", "the mill"])

    assert [len(vector) for vector in vectors] == [WIDTH] * 2


def test_texts_that_a_model_cannot_read_are_one_line(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path, sizes={"max_seq_length": 64})  # more than it has positions for
    with pytest.raises(ModelError, match=r"^encoder '.*' cannot read these texts: ") as refused:
        SentenceEncoder(str(folder)).embed_query("bees make honey from nectar " * 20)
    assert "\n" not in str(refused.value)


def test_no_file_brings_code_and_none_outside_the_folder_is_read(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "encoder", modules=("Transformer", "Pooling", "Dense"), activation="os.system")
    with pytest.raises(ModelError, match=r"has the activation 'system'; expected one of Identity, Tanh"):
        SentenceEncoder(str(folder)).embed_query("honey")
    listed = json.loads((folder / "modules.json").read_text())
    for changed, complaint in (
        ({"type": "evil.Pooling2"}, "has the modules Transformer, Pooling2"),
        ({"path": "../.."}, r"has a module in '\.\./\.\.'; expected directories inside it"),
    ):
        (folder / "modules.json").write_text(json.dumps([listed[0], {**listed[1], **changed}]))
        with pytest.raises(ModelError, match=complaint):
            sentence_files(folder)
    (folder / "modules.json").write_text("{")
    with pytest.raises(ModelError, match=r"^modules\.json of encoder '.*' cannot be read: "):
        sentence_files(folder)


CASES: dict[str, dict[str, Any]] = {
    **{mode: {"pooling": {"pooling_mode": mode}} for mode in ("cls", "max", "mean_sqrt_len_tokens", "weightedmean")},
    "last, as older files have it": {"pooling": {"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}},
    "two": {"pooling": {"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True}},
    "layers": {"modules": ("Transformer", "Pooling", "Dense", "Normalize")},
    "prompts": {"said": {"prompts": {"query": "query : ", "document": "passage : "}}},
    "prompt left out": {
        "said": {"prompts": {"query": "query : "}, "default_prompt_name": "query"},
        "pooling": {"pooling_mode": "mean", "include_prompt": False},
    },
    "short": {"sizes": {"max_seq_length": 6, "do_lower_case": True}},
}


@pytest.mark.slow  # importing the library takes seven seconds
@pytest.mark.filterwarnings("ignore")  # its own: of older names in files, of what it imports
@pytest.mark.parametrize("case", CASES)
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, case: str) -> None:
    from sentence_transformers import SentenceTransformer

    folder = str(tiny_encoder(tmp_path, **CASES[case]))
    ours, reference = SentenceEncoder(folder, device="cpu"), SentenceTransformer(folder, device="cpu")

    for found, expected in (
        (ours.embed_documents(TEXTS), reference.encode_document(TEXTS)),
        ([ours.embed_query(text) for text in TEXTS], reference.encode_query(TEXTS)),
    ):
        # float32 sums in another order, since texts are batched otherwise
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), atol=2e-6, rtol=1e-5)
