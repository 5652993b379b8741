"""The tokenizer of the bundled model, and the transfer of a trained model's weights to another tokenizer.

It is byte-level BPE in which every digit and every name is a token. Only digits, single letters (the names of values)
and line ends stop a merge, so that a line that every prompt repeats costs two or three tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
SIZE = 1024
LONGEST = 32  # maximum characters of a token; longer ones would turn a whole prompt into one position
# ChatML, without the default system prompt that other models' templates add.
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train(texts: Iterable[str], size: int = SIZE) -> PreTrainedTokenizerFast:
    """Return a tokenizer trained on texts; it can write any other text byte by byte."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d|\b[a-z]\b"), "isolated"),
            pre_tokenizers.Split(Regex(r"\n"), "merged_with_previous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=LONGEST,
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[START],
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def load(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer in `folder`; `AutoTokenizer` would use its Qwen2 class, which merges differently."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer


TABLE = "model.embed_tokens.weight"


def take_over(model: PreTrainedModel, words: PreTrainedTokenizerFast, folder: Path) -> None:
    """Copy the weights of the model in `folder` to `model`, whose tokenizer is `words`.

    A new token starts as the mean of the old tokens of its text.

    Raises:
        RuntimeError: the models differ in shape.
    """
    weights = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    weights[TABLE] = carried(weights[TABLE], load(folder), words)
    model.load_state_dict(weights, strict=False)  # the output layer is the table


def carried(table: Tensor, before: PreTrainedTokenizerFast, words: PreTrainedTokenizerFast) -> Tensor:
    """Return the embedding rows (tokens of `before`, hidden) as rows of the tokens of `words`."""
    known = before.get_vocab()
    rows = []
    for i, token in enumerate(words.convert_ids_to_tokens(list(range(len(words))))):
        ids = [known[token]] if token in known else before(words.decode([i]), add_special_tokens=False).input_ids
        rows.append(table[ids].mean(0))
    return torch.stack(rows)
