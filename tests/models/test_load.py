from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sottovoce.errors import ModelError
from sottovoce.models import load
from tests.support import VOCABULARY, ids, request, tiny_mind, tiny_model, tiny_tokenizer

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model as transformers saves it."""
    tiny_model().save_pretrained(tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_a_loaded_model_answers_as_the_one_that_was_saved(folder: Path) -> None:
    mind = load(folder, device="cpu")

    assert mind.engine.run(request()).ids == tiny_mind().engine.run(request()).ids
    assert (mind.name, mind.dtype, mind.layers, mind.stop_ids) == (str(folder), torch.float32, 2, (2, 0))


def test_a_tokenizer_is_read_as_its_file_describes_it(folder: Path) -> None:
    # AutoTokenizer made one with Qwen's pattern of it: " 14" became " ", "1", "4", and a trained model saw noise.
    chat = load(folder, device="cpu").chat

    assert chat.ids("What is 14 + 3?\n\n") == ids("What is 14 + 3?\n\n")
    assert chat.tokenizer.chat_template == tiny_tokenizer().chat_template
    assert (chat.tokenizer.eos_token_id, chat.tokenizer.pad_token_id) == (2, 0)


def test_the_same_arguments_give_the_same_mind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mind = load(folder, device="cpu")
    monkeypatch.chdir(folder.parent)

    assert load(str(folder), device="cpu") is load("./tiny", device="cpu") is load(Path("tiny"), device="cpu") is mind
    assert load(folder, device="cpu", dtype="bfloat16") is not mind


def test_a_dtype_can_be_chosen(folder: Path) -> None:
    assert load(folder, device="cpu", dtype="bfloat16").dtype == torch.bfloat16


def test_layers_are_looked_for_where_the_caller_says(folder: Path) -> None:
    assert load(folder, device="cpu", layers_path="model.layers").layers == 2
    with pytest.raises(ModelError, match=r"no decoder layers in Qwen2ForCausalLM at model\.blocks"):
        load(folder, device="cpu", layers_path="model.blocks")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "nothing",
            "unknown model 'nothing'; give 'bundled', a folder with config.json and .*, or a hub id owner/name",
        ),
        ("./nothing/here", "unknown model './nothing/here'"),
        ("/nothing/here", "unknown model '/nothing/here'"),
        ("nobody/nothing", "model 'nobody/nothing' cannot be loaded: "),
    ],
)
def test_an_unknown_name_is_refused_in_one_line(name: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint) as caught:
        load(name, device="cpu")
    assert "\n" not in str(caught.value)


def cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def without_weights(folder: Path) -> None:
    (folder / WEIGHTS).unlink()


def pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def without_one_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors["model.layers.1.self_attn.q_proj.weight"]
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def of_another_model(folder: Path) -> None:
    save_file({"weight": torch.zeros(3)}, folder / WEIGHTS, metadata={"format": "pt"})


def of_another_size(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 48}))


def of_an_unknown_kind(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "nonsense"}))


def without_tokenizer(folder: Path) -> None:
    for file in folder.glob("token*"):
        file.unlink()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "config.json").unlink(), "is no model: it has no config.json"),
        (lambda folder: cut(folder / "config.json"), "cannot be loaded: .* not a valid JSON"),
        (of_an_unknown_kind, "cannot be loaded: .* model type `nonsense`"),
        (without_weights, r"has no weights; expected \*.safetensors"),
        (pickled, r"has only pickled weights \(pytorch_model.bin\); expected \*.safetensors"),
        (lambda folder: cut(folder / WEIGHTS), "cannot be loaded: Error while deserializing header"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b""), "cannot be loaded: .* header too small"),
        (without_one_tensor, "lacks 1 of its weights, 'model.layers.1.self_attn.q_proj.weight' among them"),
        (of_another_model, r"lacks \d+ of its weights"),
        (of_another_size, "cannot be loaded"),
        (without_tokenizer, "has no tokenizer; expected tokenizer.json"),
        (lambda folder: cut(folder / "tokenizer.json"), "cannot be loaded"),
    ],
)
def test_a_folder_that_is_no_sound_model_is_refused_in_one_line(
    folder: Path, spoil: Callable[[Path], object], complaint: str
) -> None:
    spoil(folder)

    with pytest.raises(ModelError, match=complaint) as caught:
        load(folder, device="cpu")
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_that_was_mended_can_be_loaded(folder: Path) -> None:
    whole = (folder / WEIGHTS).read_bytes()
    cut(folder / WEIGHTS)
    with pytest.raises(ModelError):
        load(folder, device="cpu")
    (folder / WEIGHTS).write_bytes(whole)

    assert load(folder, device="cpu").layers == 2


def test_a_device_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="device 'banana' cannot be used"):
        load(folder, device="banana")


def test_a_table_padded_beyond_the_tokenizer_counts_the_tokenizer_alone(folder: Path) -> None:
    tiny_model(vocab_size=VOCABULARY + 20).save_pretrained(folder)

    assert len(load(folder, device="cpu").table) == VOCABULARY
