"""A reply token by token, with what was known of each distribution: from a payload, or from any chat model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from sottovoce.channels.payload import Payload, Span

WHOLE = ("entropy", "varentropy", "kurtosis")
"""What a payload has of the whole distribution at each position: of softmax(logits) at T = 1."""


@dataclass(frozen=True)
class Tokens:
    """What was generated; all sequences have an entry a token."""

    text: str
    spans: Sequence[Span]
    """Of `text`."""
    top: Sequence[Sequence[float]]
    """Log-probabilities of the most probable tokens, the highest first."""
    best: Sequence[str] | None = None
    """The most probable token's text at each position, generated or not; None where it is not known."""
    whole: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Statistics of the whole distribution by name; {} where only `top` is known."""

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def texts(self) -> list[str]:
        """Each token as it was generated."""
        return [self.text[start:end] for start, end in self.spans]

    def overlapping(self, start: int, end: int) -> list[int]:
        """Positions of the tokens that have a character of `text[start:end]`."""
        return [i for i, (first, last) in enumerate(self.spans) if first < end and last > start]


def of_payload(payload: Payload, decode: Callable[[int], str] | None = None) -> Tokens:
    """A local model's reply; `decode` makes text of an id, for positions that are found by the most probable tokens."""
    tensors = payload.tensors
    if "top_logprobs" not in tensors:
        raise UsageError("the payload holds no statistics; expected log-probabilities of the most probable tokens")
    best = None if decode is None else [decode(ids[0]) for ids in tensors["top_ids"].tolist()]
    whole = {name: tensors[name].tolist() for name in WHOLE if name in tensors}
    return Tokens(payload.label.text, payload.spans, tensors["top_logprobs"].tolist(), best, whole)


def of_response(message: BaseMessage) -> Tokens:
    """The reply of a LangChain chat model that returns log-probabilities as OpenAI's does.

    Raises:
        UsageError: the reply has none, or has them in another form.
    """
    try:
        return _of_openai(message)
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(f"the log-probabilities of the reply are not as OpenAI returns them: {error!r}") from error


def _of_openai(message: BaseMessage) -> Tokens:
    logprobs: Any = message.response_metadata.get("logprobs")  # Any: JSON of a provider
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not content or not all(each.get("top_logprobs") for each in content):
        found = "no log-probabilities" if not content else "a token without its most probable candidates"
        raise UsageError(f"the reply has {found}; expected a model that returns them: logprobs=True, top_logprobs=10")
    tops = [sorted(each["top_logprobs"], key=lambda top: -top["logprob"]) for each in content]
    texts = [_told(each["token"]) for each in content]
    return Tokens(
        "".join(texts),
        list(pairwise(accumulate(map(len, texts), initial=0))),
        [[top["logprob"] for top in each] for each in tops],
        [_told(each[0]["token"]) for each in tops],
    )


def _told(token: str) -> str:
    """Half of a character, as a byte-level token may be, cannot be written down."""
    return token.encode("utf-8", "replace").decode()
