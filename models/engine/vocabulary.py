"""A tokenizer's tokens as bytes, for constrained decoding.

llguidance compiles a response format and follows a reply byte by byte; a mask has the tokens that may come next.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from llguidance import LLMatcher
from llguidance.hf import from_tokenizer
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from sottovoce.core.errors import UsageError

FOUND = "failed to compile JSON schema: "  # precedes llguidance's reason for refusing a schema
Mask = NDArray[np.bool_]
"""(V,): True for tokens that may come next."""


class Vocabulary:
    """The tokens of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Read the tokenizer; takes up to 2 s.

        Raises:
            UsageError: the tokenizer is not of a kind whose tokens are known as bytes.
        """
        try:
            self._own = from_tokenizer(tokenizer)  # type: ignore[arg-type]  # it checks the kind itself
        except Exception as error:  # llguidance raises plain ones
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UsageError(f"the model's tokenizer does not support a response format: {why}; use none") from error
        self.size = int(self._own.vocab_size)
        self._eos = int(self._own.eos_token)
        self.matcher = lru_cache(64)(self._matcher)
        """Returns a matcher at the beginning of a grammar; copy it, never feed it."""

    def _matcher(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._own, grammar, log_level=0)
        if matcher.is_error():
            raise UsageError(_said(matcher.get_error()))
        return matcher

    def ids(self, text: str | bytes) -> tuple[int, ...]:
        """Return a text as tokens; special tokens in it are read as plain characters."""
        return tuple(self._own.tokenize_bytes(text if isinstance(text, bytes) else text.encode()))

    def text(self, ids: Sequence[int]) -> bytes:
        """Return the bytes that tokens write."""
        return bytes(self._own.decode_bytes(list(ids)))

    def mask(self, matcher: LLMatcher) -> Mask:
        """Return the tokens that may come next in a format that is not complete."""
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        return np.unpackbits(bits, count=self.size, bitorder="little").view(np.bool_)

    def after(self, matcher: LLMatcher, ids: Sequence[int]) -> LLMatcher | None:
        """Return the matcher after more tokens; None if they may not come next."""
        if self._eos in ids:
            return None
        behind = matcher.deep_copy()
        return behind if behind.try_consume_tokens(list(ids)) == len(ids) else None

    def ends(self, matcher: LLMatcher, path: Sequence[int]) -> bool:
        """Return True if the format is complete after these tokens."""
        return matcher.validate_tokens([*path, self._eos]) == len(path) + 1


def _said(error: str) -> str:
    """Return the reason from an error message that also prints the grammar."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return told[0] if told else lines[0].rpartition(FOUND)[2].rpartition(" (in regex): ")[2]
