"""What agents say to one another: a message, a heard part of it, and the turns of a prompt.

Plain values without tensors: a message names its payload by content address (`PayloadRef`),
so it travels through checkpoints, JSON and other processes unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sottovoce.channels.payload import Payload
    from sottovoce.channels.store import PayloadStore

Role = Literal["system", "user", "assistant"]
LONGEST_REPLY = 512  # tokens, of the debates in SDE (arXiv 2506.19209)


def text_digest(text: str) -> str:
    """The sha256 of a text, in hex; tells whether a message was edited after it was spoken."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class PayloadRef:
    """The content address of a payload and a summary that needs no tensor."""

    protocol: str
    sha256: str
    text_sha256: str
    tokens: int
    nbytes: int
    hidden: int | None = None
    """Width of the carried rows or states; None where a payload carries none (nl)."""
    dtype: str | None = None
    layers: tuple[int, ...] = ()
    """0-based decoder layers of the carried states, ascending."""

    def load(self, store: PayloadStore | None = None) -> Payload:
        """Return the tensors, from `store`, any open store, or the default folder.

        Raises:
            PayloadError: the payload is missing or damaged.
        """
        from sottovoce.channels.store import find

        return find(self, store)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PayloadRef:  # Any: JSON as it comes
        """Read what `dataclasses.asdict` wrote, also after a trip through JSON."""
        return cls(**{**data, "layers": tuple(data.get("layers", ()))})


@dataclass(frozen=True)
class Message:
    """What one agent said in one act; `text` is the words, `payload` what lay under them."""

    agent: str
    round: int
    """0-based; the independent answers are round 0."""
    act: str
    """The verb of the node that spoke: answer, revise, summarise."""
    text: str
    attempt: int = 0
    payload: PayloadRef | None = None
    source: str = "model"
    """Who made the words: model, expert, dummy, human, hosted, rule."""
    notes: tuple[str, ...] = ()
    """What the reader of a transcript must know, e.g. an edge that was carried in words."""
    stats: Mapping[str, float] = field(default_factory=dict)
    """Small summaries: tokens in and out, mean entropy (nats), temperature."""

    @property
    def key(self) -> tuple[int, str, str, int]:
        """Where the message stands on the board."""
        return (self.round, self.agent, self.act, self.attempt)

    @property
    def latent(self) -> PayloadRef | None:
        """The payload, unless the text was edited since: then the message is only its words."""
        if self.payload is None or self.payload.text_sha256 != text_digest(self.text):
            return None
        return self.payload

    def to_dict(self) -> dict[str, Any]:  # Any: plain JSON
        """Plain JSON, as checkpoints and saved runs hold it."""
        data = asdict(self)
        data["notes"], data["stats"] = list(self.notes), dict(self.stats)
        if self.payload is not None:
            data["payload"]["layers"] = list(self.payload.layers)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:  # Any: JSON as it comes
        """Read what `to_dict` wrote; unknown keys are an error of the caller."""
        payload = data.get("payload")
        if payload is not None and not isinstance(payload, PayloadRef):
            payload = PayloadRef.from_dict(payload)
        return cls(**{**data, "payload": payload, "notes": tuple(data.get("notes", ()))})


@dataclass(frozen=True)
class Heard:
    """A message, or a character span of it, in the place of a prompt where it is read."""

    message: Message
    span: tuple[int, int] | None = None
    """Half-open character span of `message.text`; None is the whole message."""
    latest: bool = True
    """True where the message is of the round before this one (SDE's `inject="latest"`)."""
    own: bool = False
    """True where the hearer reads what it said itself."""

    @property
    def text(self) -> str:
        """The words that are heard."""
        return self.message.text if self.span is None else self.message.text[slice(*self.span)]

    def to_dict(self) -> dict[str, Any]:  # Any: plain JSON
        """Plain JSON for a content block's `extras`."""
        data = asdict(self)
        return {**data, "message": self.message.to_dict(), "span": self.span and list(self.span)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Heard:  # Any: JSON as it comes
        """Read what `to_dict` wrote."""
        span = data.get("span")
        message = Message.from_dict(data["message"])
        return cls(**{**data, "message": message, "span": tuple(span) if span else None})


Part = str | Heard


@dataclass(frozen=True)
class Turn:
    """One turn of a chat: parts in order. Two texts side by side are tokenised apart."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The turn as words alone."""
        return words(self.parts)


def words(parts: Iterable[Part]) -> str:
    """Parts read as words: what a model without hooks gets."""
    return "".join(part if isinstance(part, str) else part.text for part in parts)
