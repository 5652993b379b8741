"""What agents say to one another: a message, what is heard of it, and the turns of a prompt.

Plain values without tensors: a message names its payload by content address (`PayloadRef`),
so it travels through checkpoints, JSON and other processes unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from sottovoce.channels.payload import Span
from sottovoce.channels.store import PayloadRef, text_digest

Role = Literal["system", "user", "assistant"]
EDITED = "edited since, heard in words"
"""The note of a message whose text is no longer the one that its payload lay under."""


class Place(NamedTuple):
    """Where a message stands on the board: when it was said, by whom, in which act, at which attempt."""

    epoch: int
    round: int
    turn: int
    agent: str
    act: str
    attempt: int

    def __str__(self) -> str:
        when = f"epoch {self.epoch}, round {self.round}, turn {self.turn}"
        return f"{self.agent!r} for {when}, act {self.act!r}, attempt {self.attempt}"


@dataclass(frozen=True)
class Message:
    """What one agent said in one act; `text` is the words, `payload` what lay under them."""

    agent: str
    round: int
    """0-based; the independent answers are round 0."""
    act: str
    """The verb of what was done: answer, revise, summarise."""
    text: str
    attempt: int = 0
    """Above 0 where the act was done again: what came before it at this place is heard no more."""
    payload: PayloadRef | None = None
    epoch: int = 0
    """0-based: how often the discussion had been reset."""
    turn: int = 0
    """0-based, within the round: what is said side by side has one turn."""
    order: int = 0
    """The agent's place in the settings: what is said in one turn stands in this order."""
    begun: str = ""
    """The beginning that the reply was given; part neither of `text` nor of the payload."""
    public: str | None = None
    """What others hear in the place of the text, where that holds more than is meant for them."""
    withdrawn: bool = False
    """True where an intervention took its place: the board keeps it, and nobody hears it."""
    asked: Literal["", "repair", "answer"] = ""
    """Why it was asked for after another that could not be read: to say that again in its form, or for the answer
    alone (the answer turn), which is read in that one's place, and heard by nobody."""
    guided: str = ""
    """Form that a local model's reply was kept to: `whole`, or the words after which it was, such as `Answer:`."""
    source: str = "model"
    """Who made the words: model, expert, dummy, human, hosted, rule."""
    notes: tuple[str, ...] = ()
    """What the reader of a transcript must know, e.g. an edge that was carried in words."""
    measured: PayloadRef | None = None
    """Of a hosted model that returned log-probabilities: where they lie; nobody hears anything of them."""
    evidence: tuple[Mapping[str, Any], ...] = ()  # Any: plain JSON
    """Of a search: the passages that it found, best first, each with its title and the ways it was found (`Origin`)."""
    stats: Mapping[str, float] = field(default_factory=dict)
    """Small summaries: tokens in (of them reused) and out, mean entropy (nats), temperature, signs of degeneration."""
    donors: tuple[PayloadRef, ...] = ()
    """Payloads of other questions that a probe let its speaker hear in the place of messages' own."""

    @property
    def place(self) -> Place:
        """Where it stands on the board."""
        return Place(self.epoch, self.round, self.turn, self.agent, self.act, self.attempt)

    @property
    def time(self) -> tuple[int, int]:
        """When in its epoch it was said: round and turn."""
        return self.round, self.turn

    @property
    def whole(self) -> str:
        """The reply with the beginning that it was given."""
        return self.begun + self.text

    @property
    def latent(self) -> PayloadRef | None:
        """The payload, unless the text was edited since: then the message is only its words."""
        if self.payload is None or self.payload.text_sha256 != text_digest(self.text):
            return None
        return self.payload

    @property
    def uncertainty(self) -> PayloadRef | None:
        """What holds the statistics of its tokens, if anything does."""
        return self.latent or self.measured

    def to_dict(self) -> dict[str, Any]:  # Any: plain JSON
        """Plain JSON, as checkpoints and saved runs hold it."""
        refs = {"payload": self.payload and self.payload.to_dict()}
        if self.measured is not None:
            refs["measured"] = self.measured.to_dict()
        left = ("measured", "guided", "evidence", "donors")
        plain = {name: value for name, value in asdict(self).items() if name not in left}
        plain |= {"guided": self.guided} if self.guided else {}
        plain |= {"evidence": [dict(each) for each in self.evidence]} if self.evidence else {}
        plain |= {"donors": [each.to_dict() for each in self.donors]} if self.donors else {}
        return {**plain, **refs, "notes": list(self.notes), "stats": dict(self.stats)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:  # Any: JSON as it comes
        """Read what `to_dict` wrote; unknown keys are an error of the caller."""
        found = {name: data.get(name) for name in ("payload", "measured")}
        refs = {name: PayloadRef.from_dict(ref) if isinstance(ref, Mapping) else ref for name, ref in found.items()}
        listed = {name: tuple(data.get(name, ())) for name in ("notes", "evidence")}
        donors = tuple(map(PayloadRef.from_dict, data.get("donors", ())))
        return cls(**{**data, **refs, **listed, "donors": donors})


@dataclass(frozen=True)
class Heard:
    """A message, or character spans of it, in the place of a prompt where it is read."""

    message: Message
    spans: tuple[Span, ...] = ()
    """Of `message.text`; () is the whole message."""
    latest: bool = True
    """True where the message is of the round before this one (SDE's `inject="latest"`)."""
    own: bool = False
    """True where the hearer reads what it said itself."""
    plain: bool = False
    """True where nothing is read of it but the tokens that were said."""
    donors: tuple[PayloadRef, ...] = ()
    """Payloads of other questions that a probe puts in the place of its own (`channels.probe`)."""
    chance: str = ""
    """Seed and question from which a probe's chance follows, with the message's place."""

    @property
    def in_public(self) -> bool:
        """True where another agent hears the message's public text, which has no payload."""
        return self.message.public is not None and not self.own and not self.spans

    @property
    def begun(self) -> str:
        """The beginning that the reply was given, where it is heard."""
        return "" if self.spans or self.in_public else self.message.begun

    @property
    def body(self) -> str:
        """The words that are heard without that beginning."""
        message = self.message
        if self.spans:
            return "".join(message.text[slice(*span)] for span in self.spans)
        return str(message.public) if self.in_public else message.text

    @property
    def text(self) -> str:
        """The words that are heard."""
        return self.begun + self.body

    def to_dict(self) -> dict[str, Any]:  # Any: plain JSON
        """Plain JSON for a content block's `extras`."""
        spans = [list(span) for span in self.spans]
        more: dict[str, Any] = {"plain": True} if self.plain else {}  # Any: as it returns
        more |= {"donors": [each.to_dict() for each in self.donors]} if self.donors else {}
        more |= {"chance": self.chance} if self.chance else {}
        return {"message": self.message.to_dict(), "spans": spans, "latest": self.latest, "own": self.own, **more}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Heard:  # Any: JSON as it comes
        """Read what `to_dict` wrote."""
        spans = tuple((int(start), int(end)) for start, end in data.get("spans", ()))
        donors = tuple(map(PayloadRef.from_dict, data.get("donors", ())))
        return cls(**{**data, "message": Message.from_dict(data["message"]), "spans": spans, "donors": donors})


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


def latest(messages: Iterable[Message]) -> list[Message]:
    """Of each place only the highest attempt, in the messages' order."""
    kept: dict[tuple[Any, ...], Message] = {}  # Any: a place without its attempt
    for message in messages:
        before = kept.get(message.place[:-1])
        if before is None or before.attempt <= message.attempt:
            kept[message.place[:-1]] = message
    return list(kept.values())
