"""Which formats of weights a model can be loaded in, what they take, and in which words the others are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sottovoce.core.errors import ModelError
from sottovoce.models import load
from sottovoce.models.huggingface.load_files import check_memory, needed
from sottovoce.models.huggingface.packed_weights import PACKINGS, Packing, settled
from tests.models import quantise
from tests.models.test_packed_weights import model_of, packed_model
from tests.support import tiny_model, tiny_tokenizer

packings = pytest.mark.parametrize("packing", PACKINGS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model_of().save_pretrained(tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@packings
def test_a_model_is_loaded_in_each_format_by_itself(folder: Path, packing: Packing) -> None:
    packed, plain = load(folder, device="cpu", weights=packing), load(folder, device="cpu")

    assert (packed.format, plain.format) == (packing, "float32")
    assert packed.dtype == plain.dtype == torch.float32
    assert torch.equal(packed.table.rows, plain.table.rows)
    assert packed.weights_key != plain.weights_key
    assert load(folder, device="cpu", weights=packing) is packed


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"weights": "int3"}, "unknown weights 'int3'; did you mean 'int"),
        (
            {"weights": "bfloat16", "dtype": "float32"},
            "dtype is 'float32' and weights are 'bfloat16'; give one of them, or the same twice",
        ),
        (
            {"weights": "int8", "device": "cuda:0"},
            "weights in int8 require a CPU, but the device is 'cuda:0'; use device cpu, or ",
        ),
        ({"weights": "int4", "exact": True}, "exact requires weights in float32, but they are in int4"),
    ],
)
def test_what_contradicts_a_format_is_refused_in_one_line(folder: Path, asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint) as caught:
        load(folder, **{"device": "cpu", **asked})
    assert "\n" not in str(caught.value)


@packings
def test_a_quantised_checkpoint_is_not_packed_again(tmp_path: Path, packing: Packing) -> None:
    quantise.fp8(tmp_path)
    with pytest.raises(ModelError, match=f"is quantized as 'fp8' and cannot be packed in {packing} too; leave weights"):
        load(tmp_path, device="cpu", weights=packing)


def test_a_model_without_a_matrix_that_fits_is_refused(tmp_path: Path) -> None:
    tiny_model(hidden_size=40, intermediate_size=72).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no matrix that int4 can store: expected linear maps of 64 n rows and 32 m"):
        load(tmp_path, device="cpu", weights="int4")


def nbytes(model: nn.Module) -> int:
    return sum(part.numel() * part.element_size() for part in [*model.parameters(), *model.buffers()])


@packings
@pytest.mark.parametrize("tied", [False, True])
def test_what_a_format_takes_is_foretold(packing: Packing, tied: bool) -> None:
    options: dict[str, Any] = {"vocab_size": 320, "tie_word_embeddings": tied}
    packed, plain = packed_model(packing, **options), model_of(**options)
    sizes = [parameter.numel() for parameter in plain.parameters()]  # a tied head is the table

    def foretold(kind: str, form: Any) -> float:
        return needed([(kind, size) for size in sizes], form)

    assert foretold("F32", "float32") == pytest.approx(nbytes(plain), rel=0.02)
    assert foretold("F32", packing) == pytest.approx(nbytes(packed), rel=0.2)
    assert foretold("BF16", packing) == foretold("F32", "float32")


def huge(folder: Path, kind: str = "F32") -> Path:
    """A file that says of itself that it holds a table of 1,024 and a matrix of a million million numbers."""
    shapes = {"table": [2**20, 2**10], "matrix": [2**15, 2**25]}
    header = json.dumps({name: {"dtype": kind, "shape": shape} for name, shape in shapes.items()}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def test_too_little_memory_is_told_in_figures_before_anything_is_read(tmp_path: Path) -> None:
    less = r"free some, or give weights int8 or int4, or use a smaller model"
    with pytest.raises(
        ModelError, match=rf"'x' takes 4,402 GB to load in float32, and .* of memory is available; {less}"
    ):
        check_memory("x", huge(tmp_path), *settled("auto", "auto", "cpu"), "cpu")
    with pytest.raises(ModelError, match=r"'x' takes 4,402 GB to load in int4, and .* is available"):
        check_memory("x", huge(tmp_path, "BF16"), *settled("auto", "int4", "cpu"), "cpu")


def test_memory_elsewhere_and_damaged_files_are_not_judged_here(tmp_path: Path) -> None:
    check_memory("x", huge(tmp_path), "auto", None, "cuda:0")
    (tmp_path / "model.safetensors").write_bytes(b"")
    check_memory("x", tmp_path, "auto", None, "cpu")
