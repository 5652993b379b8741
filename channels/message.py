"""Messages between agents, references to messages in prompts, and the turns of a prompt.

They are plain values without tensors: a message refers to its payload by content address (`PayloadRef`),
so it passes unchanged through checkpoints, JSON and other processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from sottovoce.channels.payload import Span
from sottovoce.channels.store import PayloadRef, text_digest
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import PayloadError, RequestError, nearest
from sottovoce.core.text import shortened
from sottovoce.core.validation import first_wrong

LOGGER = logging.getLogger(__name__)
Natural = Annotated[int, Field(ge=0)]
"""A number that is checked where a message comes from outside."""
Role = Literal["system", "user", "assistant", "tool"]
Ended = Literal["", "limit", "stopped", "refused", "empty", "thoughts"]
"""Why a reply is not whole or has no text: the token limit, its server, a refusal, nothing said, or thoughts alone."""
NOTHING = "(nothing)"
"""An empty message, or an empty turn, in words."""
RARE_REFS = ("measured", "thoughts_payload")
"""The references that few messages have."""
EDITED = "edited since, heard in words"
"""The note on a message whose text was edited, so that its payload no longer belongs to it."""
EXCHANGED = "its payload was put there by an edit"
"""The note on a message with tensors that no agent of the discussion said."""


class Place(NamedTuple):
    """The place of a message on the board: its time, agent, act and attempt."""

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
    """A message of one agent in one act; `text` has the words, `payload` refers to the tensors."""

    agent: str
    round: Natural
    """0-based; the independent answers are round 0."""
    act: str
    """The act as a verb: answer, revise, summarise."""
    text: str
    attempt: Natural = 0
    """Above 0 if the act was repeated: earlier messages at this place are no longer heard."""
    payload: PayloadRef | None = None
    epoch: Natural = 0
    """The number of resets of the discussion so far."""
    turn: Natural = 0
    """0-based, within the round; messages of agents that run in parallel have the same turn."""
    order: int = 0
    """The agent's position in the settings, which orders the messages of one turn."""
    begun: str = ""
    """The prefill of the reply; it is part neither of `text` nor of the payload."""
    public: str | None = None
    """The text that others hear instead of `text`, if `text` has more than is meant for them."""
    withdrawn: bool = False
    """True if an intervention replaced it: the board still has it, but nobody hears it."""
    asked: Literal["", "repair", "answer"] = ""
    """The reason for asking again after an unreadable reply: to repeat it in the right format, or to give only the
    answer (the answer turn), which is parsed instead of the first reply and heard by nobody."""
    cut: bool = False
    """True if the reply did not end whole, at the token limit or otherwise: what it states may be unfinished."""
    ended: Ended = ""
    """Why the reply is not whole, or has no text; the first of the notes then says so in words."""
    guided: str = ""
    """The constrained part of a local model's reply: `whole`, or the words before it, such as `Answer:`."""
    source: str = "model"
    """The author of the words: model, expert, dummy, human, hosted, rule."""
    notes: tuple[str, ...] = ()
    """Notes for readers of a transcript, e.g. that an edge was carried in words."""
    measured: PayloadRef | None = None
    """The payload with a hosted model's log-probabilities, if it returned some; nobody hears them."""
    evidence: tuple[Mapping[str, JSONValue], ...] = ()
    """The passages that a search found, best first, each with its title and the ways it was found (`Origin`)."""
    stats: Mapping[str, float] = field(default_factory=dict)
    """Summary statistics: tokens in (and reused) and out, mean entropy and mean negative log-likelihood of the tokens
    (nats), temperature, signs of degeneration."""
    thoughts: str = ""
    """The thoughts before the reply, of a model that thinks; nobody hears them or reads answers from them."""
    thoughts_payload: PayloadRef | None = None
    """The payload of a local model's thoughts: their statistics, and what is heard of shared ones."""
    donors: tuple[PayloadRef, ...] = ()
    """Payloads of other questions that its speaker heard instead of the messages' own, under a probe."""

    @property
    def place(self) -> Place:
        """The place of the message on the board."""
        return Place(self.epoch, self.round, self.turn, self.agent, self.act, self.attempt)

    @property
    def time(self) -> tuple[int, int]:
        """The time of the message in its epoch: round and turn."""
        return self.round, self.turn

    @property
    def aloud(self) -> Message:
        """The thoughts as a message that is heard before this one."""
        return replace(
            self, text=self.thoughts, begun="", thoughts="", payload=self.thoughts_payload, thoughts_payload=None
        )

    @property
    def full_text(self) -> str:
        """The reply with its prefill."""
        return self.begun + self.text

    @property
    def whole_text(self) -> str:
        """The full text of a complete reply, for readers to parse, or an empty text for a reply that was cut."""
        return "" if self.cut else self.full_text

    @property
    def latent(self) -> PayloadRef | None:
        """The payload, or None if there is none or the text was edited: then the message is only its words."""
        if self.payload is None or self.payload.text_sha256 != text_digest(self.text):
            return None
        return self.payload

    @property
    def own_refs(self) -> list[PayloadRef]:
        """The payloads of the message: its own, that of its statistics, and that of its thoughts."""
        return [ref for ref in (self.payload, self.measured, self.thoughts_payload) if ref is not None]

    @property
    def uncertainty(self) -> PayloadRef | None:
        """The payload with the statistics of the message's tokens, if there is one."""
        return self.latent or self.measured

    def to_dict(self) -> JSON:
        """Return plain JSON, as checkpoints and saved runs store it."""
        refs = {"payload": self.payload and self.payload.to_dict()}
        refs |= {name: ref.to_dict() for name in RARE_REFS if (ref := getattr(self, name)) is not None}
        left = (*RARE_REFS, "cut", "ended", "guided", "evidence", "donors", "thoughts")
        plain = {name: value for name, value in vars(self).items() if name not in left}
        plain |= {"cut": True} if self.cut else {}
        plain |= {name: value for name in ("ended", "guided", "thoughts") if (value := getattr(self, name))}
        plain |= {"evidence": [dict(passage) for passage in self.evidence]} if self.evidence else {}
        plain |= {"donors": [donor.to_dict() for donor in self.donors]} if self.donors else {}
        return {**plain, **refs, "notes": list(self.notes), "stats": dict(self.stats)}

    @classmethod
    def from_dict(cls, data: Mapping[str, JSONValue]) -> Message:
        """Build a message from the JSON of `to_dict`; unknown keys are an error of the caller."""
        payloads = {name: data.get(name) for name in ("payload", *RARE_REFS)}
        refs = {name: PayloadRef.from_dict(ref) if isinstance(ref, Mapping) else ref for name, ref in payloads.items()}
        listed = {name: tuple(data.get(name, ())) for name in ("notes", "evidence")}
        donors = tuple(map(PayloadRef.from_dict, data.get("donors", ())))
        return cls(**{**data, **refs, **listed, "donors": donors})


@dataclass(frozen=True)
class MessageRef:
    """A reference to a message, or to character spans of it, at the place in a prompt where it is read."""

    message: Message
    spans: tuple[Span, ...] = ()
    """Character spans of `message.text`; () is the whole message."""
    latest: bool = True
    """True if the message is from the round before this one (SDE's `inject="latest"`)."""
    own: bool = False
    """True if an agent reads its own message."""
    plain: bool = False
    """True if only the message's tokens are read, not its payload's rows or states."""
    donors: tuple[PayloadRef, ...] = ()
    """Payloads of other questions that a probe uses instead of its own (`channels.probe`)."""
    chance: str = ""
    """Seed and question that, with the message's place, determine a probe's random numbers."""

    @property
    def in_public(self) -> bool:
        """True if another agent reads the message's public text, which has no payload."""
        return self.message.public is not None and not self.own and not self.spans

    @property
    def prefill(self) -> str:
        """The prefill of the reply, if receivers read it too."""
        return "" if self.spans or self.in_public else self.message.begun

    @property
    def body(self) -> str:
        """The words that are read, without the prefill."""
        message = self.message
        if self.spans:
            return "".join(message.text[slice(*span)] for span in self.spans)
        return str(message.public) if self.in_public else message.text

    @property
    def text(self) -> str:
        """The words that are read."""
        return self.prefill + self.body

    def to_dict(self) -> JSON:
        """Return plain JSON for a content block's `extras`."""
        spans = [list(span) for span in self.spans]
        more: dict[str, Any] = {"plain": True} if self.plain else {}  # Any: as it returns
        more |= {"donors": [donor.to_dict() for donor in self.donors]} if self.donors else {}
        more |= {"chance": self.chance} if self.chance else {}
        return {"message": self.message.to_dict(), "spans": spans, "latest": self.latest, "own": self.own, **more}

    @classmethod
    def from_dict(cls, data: Mapping[str, JSONValue]) -> MessageRef:
        """Build a reference from the JSON of `to_dict`."""
        spans = tuple((int(start), int(end)) for start, end in data.get("spans", ()))
        donors = tuple(map(PayloadRef.from_dict, data.get("donors", ())))
        return cls(**{**data, "message": Message.from_dict(data["message"]), "spans": spans, "donors": donors})


Part = str | MessageRef


@dataclass(frozen=True)
class Turn:
    """One turn of a chat: parts in order. Adjacent texts are tokenized separately."""

    role: Role
    parts: tuple[Part, ...]
    more: Mapping[str, JSONValue] = field(default_factory=dict)
    """Further fields for the chat template: an assistant's `tool_calls`, or the `tool_call_id` of a tool's result."""

    @property
    def text(self) -> str:
        """The turn as text only."""
        return words(self.parts)


def words(parts: Iterable[Part]) -> str:
    """Return parts as text, for models without hooks."""
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def latest(messages: Iterable[Message]) -> list[Message]:
    """Return only the highest attempt of each place, in the order of the messages."""
    last: dict[tuple[Any, ...], Message] = {}  # Any: a place without its attempt
    for message in messages:
        before = last.get(message.place[:-1])
        if before is None or before.attempt <= message.attempt:
            last[message.place[:-1]] = message
    return list(last.values())


def with_readable_payloads(
    turns: Sequence[Turn], load: Callable[[PayloadRef], object], *, in_words: bool
) -> list[Turn]:
    """Return the turns; if `in_words` allows it, messages with payloads that cannot be loaded become words.

    Raises:
        PayloadError: a payload cannot be loaded; names the message, the payload, and the option that allows words, or
            says that the message has no words.
    """

    def part_of(part: Part) -> Part:
        ref = part.message.latent if isinstance(part, MessageRef) and not part.in_public else None
        if ref is None or isinstance(part, str):
            return part
        try:
            load(ref)
        except PayloadError as error:
            name = f"message of {part.message.agent!r}, round {part.message.round}"
            if not part.text:
                raise PayloadError(f"{name}: {error}; it has no words that could be read instead") from error
            if not in_words:
                raise PayloadError(f"{name}: {error}; with `on_missing='words'` only its words are read") from error
            LOGGER.warning("%s is read in words: %s", name, error)
            return replace(part, message=replace(part.message, payload=None))
        return part

    return [replace(turn, parts=tuple(map(part_of, turn.parts))) for turn in turns]


def validated(value: JSONValue) -> Message:
    """Return a message from its fields, in the form of `Message.to_dict`.

    Raises:
        RequestError: a field is missing, unknown, or not of its type; a number is negative; a digest is malformed.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise RequestError(
            f"a message for the board is {shortened(repr(value))}; expected its fields, as the state shows them"
        )
    known = [field.name for field in fields(Message)]
    for name in value:
        if name not in known:
            raise RequestError(nearest("field of a message:", name, known))
    try:
        return _adapter().validate_json(to_json(value, inf_nan_mode="constants"), strict=True)
    except ValidationError as error:
        raise RequestError(f"in a message for the board, {first_wrong(error, 'it')}") from error
    except PydanticSerializationError as error:
        raise RequestError(f"a message for the board is not JSON: {error}") from error


@cache  # built on first use, since it takes milliseconds
def _adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Message)
