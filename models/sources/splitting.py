"""The splitting of text by a byte-level tokenizer before it merges, for rules that transformers does not know.

A GGUF file names the rule (`tokenizer.ggml.pre`); llama.cpp's `llama-vocab.cpp` defines each name. transformers (5.23)
knows some names and splits all others as GPT-2 does.
"""

from __future__ import annotations

from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerBase

DIGITS_ALONE = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
"""Single digits, then as GPT-2; otherwise line breaks before a number become other tokens than in training."""
AS_GPT2 = ("gpt-2", "mpt", "olmo", "jais", "phi-2", "trillion")


def split_as_trained(tokenizer: PreTrainedTokenizerBase, rule: str) -> str:
    """Set the rule of a GGUF file's tokenizer if transformers does not know it; return the rule, for the record."""
    backend = tokenizer.backend_tokenizer
    if not rule or not isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        return rule
    if rule in DIGITS_ALONE:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
        return rule
    return rule if rule in AS_GPT2 else f"{rule}, which is not known: as GPT-2 does"
