"""What lay under a message as a page needs it: short rows of numbers, one entry a token.

end          where the token ends in the text, in UTF-16 units as JavaScript counts
entropy      nats; logprob the nats by which the token's own probability lies under 1
alt          the most probable tokens: how many a token has, their words, their probabilities
near         cipher: the same of the distribution that was averaged
norm         sde: the length of the difference, hidden: of the state, by layer (`layers`) and token
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sottovoce.channels.message import Message
from sottovoce.channels.payload import Payload, Span
from sottovoce.errors import PayloadError
from sottovoce.evaluation.report.packed import JSON, Numbers, counts, fractions, scaled
from sottovoce.evaluation.report.words import Words

NATS = 0.001
"""The step in which entropies are kept."""
PART = 1 / 65535
"""The step in which probabilities are kept."""
MOST, LEAST, SMALL = 8, 3, 0.002
"""So many alternatives of a token at most, and at least; others only above this probability."""


class Tensors:
    """Summaries of payloads, each made once, however many messages carry it."""

    def __init__(self, words: Words) -> None:
        """`words` takes the tokens that are met."""
        self._words = words
        self._made: dict[str, JSON] = {}
        self.lost: list[str] = []
        """Digests of payloads that are missing or damaged."""

    def of(self, message: Message) -> JSON | None:
        """None where the message has none, its text was edited since, or its payload is lost."""
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
    """(n, k) ids and probabilities, of each row those that matter."""
    found, order = payload.tensors[ids].numpy(), np.argsort(-parts, axis=-1, kind="stable")[:, :MOST]
    found, parts = np.take_along_axis(found, order, -1), np.take_along_axis(parts, order, -1)
    kept = (parts >= SMALL) | ((np.arange(parts.shape[-1]) < LEAST) & (parts > 0))
    return {
        "n": counts(kept.sum(-1)),
        "word": counts(words.numbers(found[kept], payload.label)),
        "p": fractions(parts[kept], PART),
    }


def _ends(spans: Sequence[Span], text: str) -> Numbers:
    """The last token of a character has it to its end; what stands between two tokens belongs to the later."""
    ends = np.maximum.accumulate([min(end, len(text)) for _, end in spans]) if spans else np.zeros(0, np.int64)
    if text.isascii() or max(text) <= "\uffff":
        return np.asarray(ends)
    units = np.cumsum([0, *(1 + (letter > "\uffff") for letter in text)])
    return np.asarray(units[ends])
