"""Transfer of a trained model's weights to another tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from sottovoce.training import tokenizer as tokenizers

TABLE = "model.embed_tokens.weight"


def take_over(model: PreTrainedModel, words: PreTrainedTokenizerFast, folder: Path) -> None:
    """Copy the weights of the model in `folder` to `model`, whose tokenizer is `words`.

    A new token starts as the mean of the old tokens of its text.

    Raises:
        RuntimeError: the models differ in shape.
    """
    weights = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    weights[TABLE] = carried(weights[TABLE], tokenizers.load(folder), words)
    model.load_state_dict(weights, strict=False)  # the output layer is the table


def carried(table: Tensor, before: PreTrainedTokenizerFast, words: PreTrainedTokenizerFast) -> Tensor:
    """Return the embedding rows (tokens of `before`, hidden) as rows of the tokens of `words`."""
    known = before.get_vocab()
    rows = []
    for i, token in enumerate(words.convert_ids_to_tokens(list(range(len(words))))):
        ids = [known[token]] if token in known else before(words.decode([i]), add_special_tokens=False).input_ids
        rows.append(table[ids].mean(0))
    return torch.stack(rows)
