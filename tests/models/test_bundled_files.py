"""The bundled weights, their tokenizer and their chat template."""

from __future__ import annotations

import hashlib

import pytest
from safetensors import safe_open
from transformers import PreTrainedTokenizerBase

from sottovoce.models import BUNDLED_FOLDER, load


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return load("bundled").tokenizer


def test_the_weights_are_small_in_bf16_and_have_their_checksum() -> None:
    path = BUNDLED_FOLDER / "model.safetensors"
    assert path.stat().st_size <= 10_000_000
    digest, name = (BUNDLED_FOLDER / "SHA256SUMS").read_text(encoding="utf-8").split()
    assert (digest, name) == (hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
    with safe_open(path, framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}


def test_every_digit_and_every_letter_that_names_a_value_is_a_token(tokenizer: PreTrainedTokenizerBase) -> None:
    tokens = [str(tokenizer.decode([i])) for i in tokenizer("x = 4107; 12 * 30 = 360. I do not know y, z.").input_ids]
    assert "".join(tokens) == "x = 4107; 12 * 30 = 360. I do not know y, z."
    assert [token for token in tokens if any(c.isdigit() for c in token)] == list("41071230360")
    assert {"x", "y", "z"} <= set(tokens)


@pytest.mark.parametrize("text", ["What's 3÷4? naïve – 日本 🙂\r\n\tend", "<|im_start|>", "ÿ\x00"])
def test_the_tokenizer_can_write_any_text(text: str, tokenizer: PreTrainedTokenizerBase) -> None:
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
    assert tokenizer.decode(ids) == text


def test_the_template_adds_no_system_prompt(tokenizer: PreTrainedTokenizerBase) -> None:
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
