"""The payload of a message as the page needs it: short arrays of numbers, one entry per token.

end          the end of the token in the text, in UTF-16 units as JavaScript counts
entropy      nats; logprob: the negative log-probability of the token, in nats
alt          the most probable tokens: how many for each token, their words, their probabilities
near         cipher: the same for the distribution that was averaged
norm         sde: the length of the difference; hidden: of the state; by layer (`layers`) and token

Arrays are packed as short text: base64 of 16 bits per number, or 32 where needed, with a scale. The page's `unpacked`
reads them. Words are decoded by the tokenizer of the model that the payload names; ids stand for them without it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from sottovoce.channels.message import Message
from sottovoce.channels.payload import Label, Payload, Span
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import ModelError, PayloadError
from sottovoce.models import load_tokenizer, vocabulary_digest
from sottovoce.models.huggingface.text import BROKEN

Numbers = NDArray[Any]  # Any: of any dtype
MAX_STEPS = 0xFFFF


def fractions(values: Numbers, step: float) -> JSON:
    """Pack numbers from 0 up in steps; values above 65,535 steps and NaN are stored as 65,535."""
    steps = np.nan_to_num(np.asarray(values, np.float64) / step, nan=MAX_STEPS, posinf=MAX_STEPS)
    return {"x": step, "b": _base64(np.clip(np.rint(steps), 0, MAX_STEPS).astype("<u2"))}


def scaled(values: Numbers) -> JSON:
    """Pack numbers from 0 up in 65,535ths of the largest."""
    top = float(np.max(values, initial=0.0))
    return fractions(values, top / MAX_STEPS if top > 0 else 1.0)


def counts(values: Numbers) -> JSON:
    """Pack whole numbers from 0 up, exactly."""
    numbers = np.asarray(values)
    wide = bool(np.max(numbers, initial=0) > MAX_STEPS)
    return {"x": 1, "b": _base64(numbers.astype("<u4" if wide else "<u2")), **({"wide": 1} if wide else {})}


def _base64(values: Numbers) -> str:
    return b64encode(values.tobytes()).decode("ascii")


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
        word_numbers = np.array([self._number(token, label) for token in distinct.tolist()], dtype=np.int64)
        return word_numbers[at].reshape(ids.shape)

    def _number(self, token: int, label: Label) -> int:
        key = (label.vocabulary, token)
        if key not in self._numbers:
            self._numbers[key] = len(self.texts)
            self.texts.append(text_of(token, self._tokenizer(label)))
        return self._numbers[key]

    def _tokenizer(self, label: Label) -> PreTrainedTokenizerBase | None:
        key = (label.model, label.vocabulary)
        if key not in self._tokenizers:
            self._tokenizers[key] = self._load(label)
        return self._tokenizers[key]

    def _load(self, label: Label) -> PreTrainedTokenizerBase | None:
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


def _text(text: str | Iterable[str | None]) -> str:
    """Return one string: transformers' types allow lists."""
    return text if isinstance(text, str) else "".join(piece or "" for piece in text)


SHOWN = ("entropy", "logprob", "top_logprobs", "sparse.weights")
NATS = 0.001
"""The step of stored entropies."""
PART = 1 / 65535
"""The step of stored probabilities."""
MAX_CHOICES, MIN_CHOICES, SMALL = 8, 3, 0.002
"""Maximum and minimum number of a token's alternatives; those beyond the minimum have this probability or more."""


class Tensors:
    """Summaries of payloads, each computed once, even if several messages carry it."""

    def __init__(self, words: Words) -> None:
        """Collect the tokens of all payloads in `words`."""
        self._words = words
        self._summaries: dict[str, JSON] = {}
        self.missing: list[str] = []
        """Digests of payloads that are missing or damaged."""

    def of(self, message: Message) -> JSON | None:
        """Return a message's summary; None if it has no payload, its text was edited, or the payload is lost."""
        ref = message.uncertainty
        if ref is None or ref.sha256 in self.missing:
            return None
        if ref.sha256 not in self._summaries:
            try:
                payload = ref.load()
            except PayloadError:  # a moved run, or one that was tampered with; its words can still be read
                self.missing.append(ref.sha256)
                return None
            self._summaries[ref.sha256] = _summary(payload, message.text, self._words)
        return self._summaries[ref.sha256]


def _summary(payload: Payload, text: str, words: Words) -> JSON:
    tensors = {name: tensor.float().numpy() for name, tensor in payload.tensors.items() if name in SHOWN}
    summary: JSON = {"end": counts(_ends(payload.spans, text))}
    if "entropy" in tensors:
        summary["entropy"] = fractions(tensors["entropy"], NATS)
    if "logprob" in tensors:
        summary["logprob"] = fractions(-tensors["logprob"], NATS)
    if "top_ids" in payload.tensors:
        summary["alt"] = _choices(payload, "top_ids", np.exp(tensors["top_logprobs"]), words)
    if "sparse.ids" in payload.tensors:
        summary["near"] = _choices(payload, "sparse.ids", tensors["sparse.weights"], words)
    if payload.states is not None:
        summary["layers"] = list(payload.label.layers)
        summary["norm"] = scaled(payload.states.float().norm(dim=-1).numpy())
    return summary


def _choices(payload: Payload, ids: str, parts: Numbers, words: Words) -> JSON:
    """Pack ids and probabilities, both (n, k), with those of each row that matter."""
    chosen, order = payload.tensors[ids].numpy(), np.argsort(-parts, axis=-1, kind="stable")[:, :MAX_CHOICES]
    chosen, parts = np.take_along_axis(chosen, order, -1), np.take_along_axis(parts, order, -1)
    likely = (parts >= SMALL) | ((np.arange(parts.shape[-1]) < MIN_CHOICES) & (parts > 0))
    return {
        "n": counts(likely.sum(-1)),
        "word": counts(words.numbers(chosen[likely], payload.label)),
        "p": fractions(parts[likely], PART),
    }


def _ends(spans: Sequence[Span], text: str) -> Numbers:
    """Return the ends of tokens; text between two tokens belongs to the later one."""
    ends = np.maximum.accumulate([min(end, len(text)) for _, end in spans]) if spans else np.zeros(0, np.int64)
    if text.isascii() or max(text) <= "\uffff":
        return np.asarray(ends)
    units = np.cumsum([0, *(1 + (letter > "\uffff") for letter in text)])
    return np.asarray(units[ends])
