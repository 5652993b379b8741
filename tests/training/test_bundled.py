"""The weights that ship, and what is said about them."""

import json

import pytest
from safetensors import safe_open

from sottovoce.models import BUNDLED_FOLDER
from sottovoce.training import tokenizer
from sottovoce.training.publish import digest


@pytest.fixture(scope="module")
def prompts() -> dict[str, str]:
    data: dict[str, str] = json.loads((BUNDLED_FOLDER / "training.json").read_text(encoding="utf-8"))["prompts"]
    return data


def test_the_model_was_trained_on_the_prompt_files_as_they_are(prompts: dict[str, str]) -> None:
    files = [name for name, sha256 in prompts.items() if digest(name) != sha256]
    assert not files, f"prompt files changed: {', '.join(files)}; retrain (python -m sottovoce.training --again)"


def test_the_weights_are_small_and_in_bf16() -> None:
    path = BUNDLED_FOLDER / "model.safetensors"
    assert path.stat().st_size <= 10_000_000
    with safe_open(path, framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}


def test_every_digit_and_every_letter_that_names_a_value_is_a_token() -> None:
    words = tokenizer.load(BUNDLED_FOLDER)
    tokens = [str(words.decode([i])) for i in words("x = 4107; 12 * 30 = 360. I do not know y, z.").input_ids]
    assert "".join(tokens) == "x = 4107; 12 * 30 = 360. I do not know y, z."
    assert [token for token in tokens if any(c.isdigit() for c in token)] == list("41071230360")
    assert {"x", "y", "z"} <= set(tokens)


@pytest.mark.parametrize("text", ["What's 3÷4? naïve – 日本 🙂\r\n\tend", "<|im_start|>", "ÿ\x00"])
def test_the_tokenizer_can_write_any_text(text: str) -> None:
    words = tokenizer.load(BUNDLED_FOLDER)
    ids = words(text, add_special_tokens=False, split_special_tokens=True).input_ids
    assert words.decode(ids) == text


def test_the_template_adds_no_system_prompt() -> None:
    words = tokenizer.load(BUNDLED_FOLDER)
    chat = words.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
    assert chat == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
