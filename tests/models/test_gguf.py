"""A GGUF file is a model like any other, converted once; what cannot be read is told in one line."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, dequantize, quantize
from gguf import GGUFValueType as Value
from gguf.gguf_reader import GGUFReader
from gguf.quants import dequantize as by_gguf
from transformers import PreTrainedModel

from sottovoce.core.errors import ModelError
from sottovoce.models import load
from sottovoce.models.doctor import diagnose
from sottovoce.models.huggingface.packed_weights import matrices
from sottovoce.models.sources import source_of
from sottovoce.models.sources.cache import remove_oldest
from sottovoce.models.sources.gguf import UNREAD, Reader, converted, dequantized
from tests.models.gguf_files import tensors, write_gguf
from tests.support import HIDDEN, ids, tiny_model

Kind = GGMLQuantizationType
TEXT = "What is 14 + 3 * 5 - 7?\n\n22"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_gguf_file_computes_as_the_model_that_it_was_made_of(tmp_path: Path) -> None:
    loaded = load(write_gguf(tmp_path / "tiny.gguf", split="gpt-2"), device="cpu")
    prompt = torch.tensor([ids(TEXT)])

    assert loaded.chat.ids(TEXT) == ids(TEXT)
    assert torch.equal(loaded.model(prompt).logits, tiny_model("llama")(prompt).logits)
    assert loaded.stop_ids == (2,)
    assert loaded.tokenizer.chat_template is not None


def test_quantised_weights_keep_their_values_in_float32(tmp_path: Path) -> None:
    kind = Kind.Q4_0
    loaded = load(write_gguf(tmp_path / "tiny.gguf", kind=kind), device="cpu")
    original = tensors(tiny_model("llama"))["blk.1.ffn_down.weight"]

    found = loaded.model.get_parameter("model.layers.1.mlp.down_proj.weight")
    assert torch.equal(found, torch.from_numpy(dequantize(quantize(original, kind), kind)))
    assert found.dtype == torch.float32 and found.shape[0] == HIDDEN


def test_a_file_that_is_not_quantised_keeps_its_dtype(tmp_path: Path, cache: Path) -> None:
    load(write_gguf(tmp_path / "tiny.gguf", kind=Kind.F16), device="cpu")
    (folder,) = cache.glob("gguf-*")
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float16"


def wide_model(**options: Any) -> PreTrainedModel:
    """A tiny Llama whose matrices a kernel can take, its head as well."""
    sizes = {"hidden_size": 128, "intermediate_size": 192, "vocab_size": 320}
    made: PreTrainedModel = tiny_model("llama", **{**sizes, **options}).eval()
    return made


@pytest.mark.parametrize(("kind", "weights"), [(Kind.Q4_1, "int4"), (Kind.Q8_0, "int8")])
def test_a_packed_model_has_the_values_of_the_file(tmp_path: Path, kind: Kind, weights: Any) -> None:
    file = write_gguf(tmp_path / "wide.gguf", kind=kind, model=wide_model())
    packed, plain = (load(file, device="cpu", weights=each).model for each in (weights, "auto"))
    for name, matrix in matrices(plain).items():
        module = packed.get_submodule(name.removesuffix(".weight"))
        found = module.widened().T  # type: ignore[operator]  # a packed one
        if name != "lm_head.weight":  # which keeps 8 bits
            assert (found - matrix).abs().max() <= 2**-8 * matrix.abs().max(), name  # of bfloat16 scales


def test_a_file_is_converted_once_wherever_it_lies(tmp_path: Path, cache: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")
    load(file, device="cpu")
    (folder,) = cache.glob("gguf-*")
    before = (folder / "model.safetensors").stat().st_mtime_ns
    load(file.rename(tmp_path / "moved"), device="cpu")

    assert [*cache.glob("gguf-*")] == [folder]
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("kind", [Kind.F16, Kind.Q4_0, Kind.Q8_0])
def test_a_file_is_read_as_gguf_reads_it(tmp_path: Path, kind: Kind) -> None:
    # gguf's own reader takes 20 s for a vocabulary of 150,000 tokens, and transformers reads a file three times.
    file = write_gguf(tmp_path / "tiny.gguf", kind=kind)
    ours, theirs = Reader(file), GGUFReader(file)

    assert [*ours.fields] == [name for name in theirs.fields if name not in UNREAD]
    for name, field in ours.fields.items():
        assert field.contents() == theirs.fields[name].contents(), name
    for mine, right in zip(ours.tensors, theirs.tensors, strict=True):
        assert (mine.name, mine.tensor_type) == (right.name, right.tensor_type)
        assert np.array_equal(dequantized(mine.data, mine.tensor_type), by_gguf(right.data, right.tensor_type)), (
            mine.name
        )


def test_a_conversion_leaves_the_package_gguf_as_it_was(tmp_path: Path, cache: Path) -> None:
    # Others in the process read files with it too, and ours skips fields.
    before = {**vars(gguf)}
    converted(write_gguf(tmp_path / "tiny.gguf"))
    assert vars(gguf) == before and gguf.GGUFReader is GGUFReader


def test_the_conversions_used_least_recently_are_removed_beyond_a_limit(tmp_path: Path, cache: Path) -> None:
    files = [write_gguf(tmp_path / f"{name}.gguf", split=name) for name in ("gpt-2", "smollm", "mpt")]
    folders = [converted(file) for file in files]
    for at, folder in enumerate(folders):
        os.utime(folder / "source.json", (at, at))
    converted(files[0])  # used today, it stays whatever the limit

    remove_oldest(folders[2], 1.0)

    assert sorted(cache.glob("gguf-*")) == sorted([folders[0], folders[2]])


def test_files_beside_it_are_not_read(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")
    for name in ("config.json", "tokenizer_config.json", "adapter_config.json", "generation_config.json"):
        (tmp_path / name).write_text("{")
    assert load(file, device="cpu").layers == 2


@pytest.mark.parametrize(
    ("rule", "tokens"), [("smollm", ["Ċ", "Ċ", "1", "4"]), ("gpt-2", ["Ċ", "Ċ", "14"]), ("nonsense", ["Ċ", "Ċ", "14"])]
)
def test_digits_are_split_as_the_file_says(tmp_path: Path, rule: str, tokens: list[str]) -> None:
    # transformers (5.23) splits by its own table or else as GPT-2 does: SmolLM2 saw other tokens than in training.
    tokenizer = load(write_gguf(tmp_path / "tiny.gguf", split=rule), device="cpu").tokenizer
    assert tokenizer.tokenize("\n\n14") == tokens


def test_doctor_says_if_the_rule_that_splits_text_is_unknown(tmp_path: Path) -> None:
    found = list(diagnose(write_gguf(tmp_path / "tiny.gguf", kind=Kind.Q8_0, split="nonsense"), device="cpu"))

    assert found[0].check == "source"
    assert found[0].detail.startswith("tiny.gguf, licence mit; ")
    assert found[0].detail.endswith("; text is split by the rule nonsense, which is not known: as GPT-2 does")
    assert [each for each in found if each.ok is False] == []


def test_the_record_of_another_format_has_the_file_converted_again(tmp_path: Path, cache: Path) -> None:
    load(write_gguf(tmp_path / "tiny.gguf"), device="cpu")
    (folder,) = cache.glob("gguf-*")
    record = folder / "source.json"
    record.write_text(record.read_text().replace('"format": 1', '"format": 2'))
    assert source_of(folder) is None

    load((tmp_path / "tiny.gguf").rename(tmp_path / "again.gguf"), device="cpu")
    assert source_of(folder) is not None


def cut_to(share: float) -> Callable[[Path], object]:
    def cut(file: Path) -> None:
        data = write_gguf(file).read_bytes()
        file.write_bytes(data[: int(len(data) * share)])

    return cut


def claiming(at: str | int, value: bytes) -> Callable[[Path], object]:
    """Write a file that says another number at a place of its header, or as the value of a key."""

    def claim(file: Path) -> None:
        data = write_gguf(file).read_bytes()
        start = at if isinstance(at, int) else data.index(at.encode()) + len(at) + 4  # behind the type
        file.write_bytes(data[:start] + value + data[start + len(value) :])

    return claim


def of_header(*fields: bytes, tensors: int = 0) -> Callable[[Path], object]:
    header = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(fields) - tensors)
    return lambda file: file.write_bytes(header + b"".join(fields) + bytes(8500))


def listed(kind: Value, count: int) -> bytes:
    return struct.pack("<Q1sIIQ", 1, b"k", Value.ARRAY, kind, count)


def sharing(name: bytes) -> bytes:
    """A tensor of 64 times 32 numbers at the beginning of the data."""
    return struct.pack("<Q1sIQQIQ", 1, name, 2, 64, 32, Kind.F32, 0)


MANY = struct.pack("<I", 10**9)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (claiming("llama.block_count", MANY), "block_count is 1000000000, but it has tensors of 2 layers; join the pa"),
        (claiming("llama.feed_forward_length", MANY), "describes a model of 192,.* weights, but has 37,792; fetch"),
        (claiming(8, MANY), "it has 1,000,000,000 tensors; expected at most 10,000"),
        (claiming(16, MANY), "it has 1,000,000,000 keys; expected at most 10,000"),
        (of_header(listed(Value.UINT8, 10**9)), "it has 1,000,000,000 items in its lists; expected at most 2,000,000"),
        (of_header(listed(Value.ARRAY, 1)), "it has a list of lists; expected lists of numbers or texts"),
        (of_header(sharing(b"a"), sharing(b"b"), tensors=2), r"its tensors take 16,384 bytes, but the file has 8,\d+"),
        (lambda file: write_gguf(file, architecture="mystery"), r"cannot be read by transformers \S+: .*mystery"),
        (cut_to(0.999), r"cannot be read by transformers .*; fetch it again"),
        (cut_to(0.02), "cannot be read by"),
        (lambda file: file.write_text("hello"), "cannot be read by"),
        (lambda file: file.write_text("version https://git-lfs.github.com/spec/v1\n"), "a pointer of Git LFS; "),
        (lambda file: file.write_bytes(b""), "cannot be read by"),
        (
            lambda file: write_gguf(file, without="blk.1.attn_q.weight"),
            "lacks 1 weight of a LlamaForCausalLM, such as 'model.layers.1.self_attn.q_proj.weight'",
        ),
        (lambda file: None, "there is no file "),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line_and_leaves_nothing(
    tmp_path: Path, cache: Path, spoil: Callable[[Path], object], complaint: str
) -> None:
    file = tmp_path / "tiny.gguf"
    spoil(file)

    with pytest.raises(ModelError, match=complaint) as caught:
        load(file, device="cpu")
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    assert [*cache.glob("*")] == []
