"""A reply token by token, with what was known of each distribution: from a payload, or from any chat model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, overload

from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from sottovoce.channels.payload import Payload, Span

WHOLE = ("entropy", "varentropy", "kurtosis")
"""What a payload has of the whole distribution at each position: of softmax(logits) at T = 1."""
BEST = "best"
"""The tensor (n, bytes) of a hosted model's payload that holds the text of each most probable token."""
Decode = Callable[[int], str]
"""A token id of a local model -> its text."""


@dataclass(frozen=True)
class Tokens:
    """What was generated; all sequences have an entry a token."""

    text: str
    spans: Sequence[Span]
    """Of `text`."""
    top: Sequence[Sequence[float]]
    """Log-probabilities of the most probable tokens, the highest first."""
    best: Sequence[str] | None = None
    """The text of the most probable token at each position, generated or not; None where it is unknown."""
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


class Decoded(Sequence[str]):
    """Texts of token ids, each decoded when it is read: most positions need none, and a decoder may be slow to load."""

    def __init__(self, ids: Sequence[int], decode: Decode) -> None:
        """The ids in order."""
        self._ids, self._decode = ids, decode

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return [*map(self._decode, self._ids[at])] if isinstance(at, slice) else self._decode(self._ids[at])


def of_payload(payload: Payload, decode: Decode | None = None) -> Tokens:
    """Read the tokens of a stored reply.

    `decode` turns a token id of a local model into text, for positions that read the most probable tokens. Payloads
    of hosted models hold these texts.

    Raises:
        UsageError: the payload holds no log-probabilities.
    """
    tensors = payload.tensors
    if "top_logprobs" not in tensors:
        raise UsageError("the payload holds no statistics; expected log-probabilities of the most probable tokens")
    best: Sequence[str] | None = None
    if BEST in tensors:
        best = [bytes(row).rstrip(b"\0").decode() for row in tensors[BEST].tolist()]
    elif decode is not None:
        best = Decoded([ids[0] for ids in tensors["top_ids"].tolist()], decode)
    whole = {name: tensors[name].tolist() for name in WHOLE if name in tensors}
    return Tokens(payload.label.text, payload.spans, tensors["top_logprobs"].tolist(), best, whole)


def encoded(texts: Sequence[str]) -> list[list[int]]:
    """The bytes of texts in UTF-8, as rows of one length: a payload keeps them as the tensor `best`."""
    rows = [text.encode() for text in texts]
    width = max(map(len, rows), default=0)
    return [list(row.ljust(width, b"\0")) for row in rows]


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
