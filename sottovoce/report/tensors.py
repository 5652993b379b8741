"""The payload of a message as the page needs it: short arrays of numbers, one entry per token.

end          the end of the token in the text, in UTF-16 units as JavaScript counts
entropy      nats; logprob: the negative log-probability of the token, in nats
alt          the most probable tokens: how many for each token, their words, their probabilities
near         cipher: the same for the distribution that was averaged
norm         sde: the length of the difference; hidden: of the state; by layer (`layers`) and token
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sottovoce.channels.message import Message
from sottovoce.channels.payload import Payload, Span
from sottovoce.core.errors import PayloadError
from sottovoce.report.nearest_words import Words
from sottovoce.report.packed import JSON, Numbers, counts, fractions, scaled

NATS = 0.001
"""The step of stored entropies."""
PART = 1 / 65535
"""The step of stored probabilities."""
MOST, LEAST, SMALL = 8, 3, 0.002
"""Maximum and minimum number of a token's alternatives; those beyond the minimum have this probability or more."""


class Tensors:
    """Summaries of payloads, each computed once, even if several messages carry it."""

    def __init__(self, words: Words) -> None:
        """Collect the tokens of all payloads in `words`."""
        self._words = words
        self._made: dict[str, JSON] = {}
        self.lost: list[str] = []
        """Digests of payloads that are missing or damaged."""

    def of(self, message: Message) -> JSON | None:
        """Return a message's summary; None if it has no payload, its text was edited, or the payload is lost."""
        ref = message.uncertainty
        if ref is None or ref.sha256 in self.lost:
            return None
        if ref.sha256 not in self._made:
            try:
                payload = ref.load()
            except PayloadError:  # a moved run, or one that was tampered with; its words can still be read
                self.lost.append(ref.sha256)
                return None
            self._made[ref.sha256] = _summary(payload, message.text, self._words)
        return self._made[ref.sha256]


def _summary(payload: Payload, text: str, words: Words) -> JSON:
    tensors = {name: tensor.float().numpy() for name, tensor in payload.tensors.items() if _is_shown(name)}
    made: JSON = {"end": counts(_ends(payload.spans, text))}
    if "entropy" in tensors:
        made["entropy"] = fractions(tensors["entropy"], NATS)
    if "logprob" in tensors:
        made["logprob"] = fractions(-tensors["logprob"], NATS)
    if "top_ids" in payload.tensors:
        made["alt"] = _choices(payload, "top_ids", np.exp(tensors["top_logprobs"]), words)
    if "sparse.ids" in payload.tensors:
        made["near"] = _choices(payload, "sparse.ids", tensors["sparse.weights"], words)
    if payload.states is not None:
        made["layers"] = list(payload.label.layers)
        made["norm"] = scaled(payload.states.float().norm(dim=-1).numpy())
    return made


def _is_shown(name: str) -> bool:
    return name in ("entropy", "logprob", "top_logprobs", "sparse.weights")


def _choices(payload: Payload, ids: str, parts: Numbers, words: Words) -> JSON:
    """Pack ids and probabilities, both (n, k), with those of each row that matter."""
    found, order = payload.tensors[ids].numpy(), np.argsort(-parts, axis=-1, kind="stable")[:, :MOST]
    found, parts = np.take_along_axis(found, order, -1), np.take_along_axis(parts, order, -1)
    kept = (parts >= SMALL) | ((np.arange(parts.shape[-1]) < LEAST) & (parts > 0))
    return {
        "n": counts(kept.sum(-1)),
        "word": counts(words.numbers(found[kept], payload.label)),
        "p": fractions(parts[kept], PART),
    }


def _ends(spans: Sequence[Span], text: str) -> Numbers:
    """Return the ends of tokens; text between two tokens belongs to the later one."""
    ends = np.maximum.accumulate([min(end, len(text)) for _, end in spans]) if spans else np.zeros(0, np.int64)
    if text.isascii() or max(text) <= "\uffff":
        return np.asarray(ends)
    units = np.cumsum([0, *(1 + (letter > "\uffff") for letter in text)])
    return np.asarray(units[ends])
