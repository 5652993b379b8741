"""The model that is timed: the bundled one, or random weights in its shape where it is absent."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from sottovoce.models import Mind, assemble, load
from sottovoce.models.load import BUNDLED_FOLDER

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LESSON = [f"What is {a} + {a * 7} * {b} - {a + b}? Another agent answered: {a * b}." for a in range(99) for b in (3, 8)]


def bundled_or_random() -> tuple[Mind, str]:
    """The mind, and a line that says which it is."""
    if (BUNDLED_FOLDER / "model.safetensors").is_file():
        return load(), "the bundled model"
    return random_mind(), "random weights in the bundled model's shape"


def random_mind() -> Mind:
    """Qwen2, hidden 128, 6 layers, 4 heads, MLP 336, tied: its speed is the bundled model's, its words are noise."""
    tokenizer = _tokenizer(640)
    config = Qwen2Config(
        vocab_size=640,
        hidden_size=128,
        intermediate_size=336,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
    return assemble("random", model, tokenizer)


def _tokenizer(size: int) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(LESSON, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHATML
    )
