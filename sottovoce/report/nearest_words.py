"""The texts of tokens, by the tokenizer of the model that the payload names; ids if it cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from transformers import PreTrainedTokenizerBase

from sottovoce.channels.payload import Label
from sottovoce.core.errors import ModelError
from sottovoce.models import load_tokenizer, vocabulary_digest
from sottovoce.models.huggingface.text import BROKEN
from sottovoce.report.packed import Numbers


class Words:
    """The distinct tokens that a page shows; messages refer to them by number."""

    def __init__(self) -> None:
        """Start without any token."""
        self.texts: list[str] = []
        self.notes: list[str] = []
        """Models whose tokenizer could not be loaded, and why."""
        self._numbers: dict[tuple[str, int], int] = {}
        self._tokenizers: dict[tuple[str, str], PreTrainedTokenizerBase | None] = {}

    def numbers(self, ids: Numbers, label: Label) -> Numbers:
        """Return the numbers of tokens, in the shape of their ids."""
        distinct, at = np.unique(ids, return_inverse=True)
        found = np.array([self._number(each, label) for each in distinct.tolist()], dtype=np.int64)
        return found[at].reshape(ids.shape)

    def _number(self, token: int, label: Label) -> int:
        key = (label.vocabulary, token)
        if key not in self._numbers:
            self._numbers[key] = len(self.texts)
            self.texts.append(text_of(token, self._tokenizer(label)))
        return self._numbers[key]

    def _tokenizer(self, label: Label) -> PreTrainedTokenizerBase | None:
        key = (label.model, label.vocabulary)
        if key not in self._tokenizers:
            self._tokenizers[key] = self._found(label)
        return self._tokenizers[key]

    def _found(self, label: Label) -> PreTrainedTokenizerBase | None:
        try:
            tokenizer = load_tokenizer(label.model)
            if vocabulary_digest(tokenizer) == label.vocabulary:
                return tokenizer
            why = "it has another vocabulary now"
        except ModelError as error:
            why = str(error)
        self.notes.append(f"tokens of {label.model!r} are shown as numbers: {why}")
        return None


def text_of(token: int, tokenizer: PreTrainedTokenizerBase | None) -> str:
    """Return a token's text, or its form in the vocabulary if its bytes are not a complete character."""
    if tokenizer is None:
        return f"#{token}"
    text = _text(tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False))
    return _text(tokenizer.convert_ids_to_tokens([token])) if BROKEN in text or not text else text


def _text(found: str | Iterable[str | None]) -> str:
    """Return one string: transformers' types allow lists."""
    return found if isinstance(found, str) else "".join(each or "" for each in found)
