"""How a byte-level tokenizer splits text before it merges, where transformers does not know a GGUF file's rule.

A GGUF file gives the rule by a name (`tokenizer.ggml.pre`); llama.cpp's `llama-vocab.cpp` says what each
name means. transformers (5.23) knows some and splits all others as GPT-2 does.
"""

from __future__ import annotations

from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerBase

DIGITS_ALONE = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
"""Each digit by itself, then as GPT-2: else line breaks before a number become other tokens than in training."""
AS_GPT2 = ("gpt-2", "mpt", "olmo", "jais", "phi-2", "trillion")


def split_as_trained(tokenizer: PreTrainedTokenizerBase, rule: str) -> str:
    """Give a tokenizer that was read from a GGUF file its rule where transformers has none; says what was found."""
    backend = tokenizer.backend_tokenizer
    if not rule or not isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        return rule
    if rule in DIGITS_ALONE:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
        return rule
    return rule if rule in AS_GPT2 else f"{rule}, which is not known: as GPT-2 does"
