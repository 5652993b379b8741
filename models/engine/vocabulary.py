"""A tokenizer's tokens as bytes, and what may be written with them.

llguidance compiles a form and follows a reply byte by byte; the tokens that may come next are a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from llguidance import LLMatcher
from llguidance.hf import from_tokenizer
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from sottovoce.errors import UsageError

FOUND = "failed to compile JSON schema: "  # before what llguidance says of a schema
Mask = NDArray[np.bool_]
"""(V,): which tokens may come next."""


class Vocabulary:
    """The tokens of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Read the tokenizer; takes up to 2 s.

        Raises:
            UsageError: it is none of those whose tokens are known as bytes.
        """
        try:
            self._own = from_tokenizer(tokenizer)  # type: ignore[arg-type]  # it checks the kind, and says what it wants
        except Exception as error:  # llguidance's are plain ones
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UsageError(f"the model's tokenizer cannot be held to a form: {why}; ask without one") from error
        self.size = int(self._own.vocab_size)
        self._eos = int(self._own.eos_token)
        self.matcher = lru_cache(64)(self._matcher)
        """A matcher at the beginning of a grammar; to be copied, never fed."""

    def _matcher(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._own, grammar, log_level=0)
        if matcher.is_error():
            raise UsageError(_said(matcher.get_error()))
        return matcher

    def ids(self, text: str | bytes) -> tuple[int, ...]:
        """A text as the tokenizer has it, special tokens in it read as plain characters."""
        return tuple(self._own.tokenize_bytes(text if isinstance(text, bytes) else text.encode()))

    def text(self, ids: Sequence[int]) -> bytes:
        """What tokens write."""
        return bytes(self._own.decode_bytes(list(ids)))

    def mask(self, matcher: LLMatcher) -> Mask:
        """The tokens that may come next, of a form that is not complete."""
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        return np.unpackbits(bits, count=self.size, bitorder="little").view(np.bool_)

    def after(self, matcher: LLMatcher, ids: Sequence[int]) -> LLMatcher | None:
        """The matcher behind more tokens, or None where they may not come next."""
        if self._eos in ids:
            return None
        behind = matcher.deep_copy()
        return behind if behind.try_consume_tokens(list(ids)) == len(ids) else None

    def ends(self, matcher: LLMatcher, path: Sequence[int]) -> bool:
        """Whether the form is complete behind these tokens."""
        return matcher.validate_tokens([*path, self._eos]) == len(path) + 1


def _said(error: str) -> str:
    """What is wrong, out of a message that shows the grammar too."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return told[0] if told else lines[0].rpartition(FOUND)[2].rpartition(" (in regex): ")[2]
