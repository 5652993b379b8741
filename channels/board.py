"""LangGraph state channels: the board of all messages, and values that can be removed again.

The board has each message at its place, in order of time. Writing an equal message again has no effect, so replays and
retries are harmless; a different text at the same place is an error. Messages are never removed: those that a reset
withdrew stay for the record, and readers use the current epoch (`nodes.state.current_messages`). Checkpoints store
plain JSON; messages may also be written as JSON.

Removable values let a thread take one question after another: a value that the next question lacks is not kept from the
last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from langgraph.channels import LastValue
from langgraph.channels.base import BaseChannel
from langgraph.types import Overwrite

from sottovoce.channels.message import EDITED, RARE_REFS, Message, Place, validated
from sottovoce.core.any_types import JSON, AnyState, JSONValue, Untyped
from sottovoce.core.errors import BoardConflict, RequestError
from sottovoce.core.text import shortened

OVERWRITE = "__overwrite__"  # the key of an Overwrite in JSON
Wire = list[JSON]


class Board(BaseChannel[list[Message], JSONValue, Wire]):
    """Messages by their `Place`."""

    def __init__(self, typ: Untyped, key: str = "") -> None:
        """Create an empty board."""
        super().__init__(typ, key)
        self._messages: dict[Place, Message] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Board)

    __hash__ = None  # type: ignore[assignment]  # mutable

    @property
    def ValueType(self) -> Untyped:
        """The type that nodes read."""
        return list[Message]

    @property
    def UpdateType(self) -> Untyped:
        """The type that nodes write."""
        return list[Message]

    def copy(self) -> Self:
        """Return an independent board with the same messages."""
        new = type(self)(self.typ, self.key)
        new._messages = dict(self._messages)
        return new

    def checkpoint(self) -> Wire:
        """Return the messages as plain JSON, in order."""
        wire = [message.to_dict() for message in self.get()]
        for data in wire:  # savers store every message many times, and summaries can be recomputed
            for ref in filter(None, (data.get(name) for name in ("payload", *RARE_REFS))):
                del ref["summary"]
        return wire

    def from_checkpoint(self, checkpoint: Wire | Untyped) -> Self:
        """Return a board with the messages of a checkpoint."""
        new = type(self)(self.typ, self.key)
        if isinstance(checkpoint, (list, tuple)):
            messages = (each if isinstance(each, Message) else Message.from_dict(each) for each in checkpoint)
            new._messages = {message.place: message for message in messages}
        return new

    def get(self) -> list[Message]:
        """Return all messages by epoch, round, turn and agent, then in order of arrival."""
        return sorted(self._messages.values(), key=lambda message: (message.epoch, *message.time, message.order))

    def is_available(self) -> bool:
        """Return True: a board can always be read."""
        return True

    def update(self, values: Sequence[Untyped]) -> bool:
        """Apply the writes of a superstep, and return True if anything changed.

        Raises:
            RequestError: a write is not a message.
            BoardConflict: another message has the same place.
        """
        before = self._messages
        self._messages = dict(before)
        for value in values:
            overwrites, messages = _overwritten(value)
            if overwrites:
                self._messages = {}
            for message in _messages(messages):
                self._add(message)
        return before != self._messages

    def _add(self, message: Message) -> None:
        """Add a message unless an equal one exists: rounding may change the payload of a repeated step."""
        if message.payload is not None and message.latent is None and EDITED not in message.notes:
            message = replace(message, notes=(*message.notes, EDITED), cut=False)
        first = self._messages.setdefault(message.place, message)
        if (first.text, first.source) != (message.text, message.source):
            raise BoardConflict(
                f"two different messages of {message.place}: "
                f"{first.text[:60]!r} and {message.text[:60]!r}; raise `attempt` to replace one"
            )


def _overwritten(value: Untyped) -> tuple[bool, Untyped]:
    """Return True if a write replaces all messages, and the written messages."""
    if isinstance(value, Overwrite):
        return True, value.value
    if isinstance(value, Mapping) and set(value) == {OVERWRITE}:
        return True, value[OVERWRITE]
    if isinstance(value, Mapping) and value.get("type") == OVERWRITE:  # the dataclass in JSON
        return True, value.get("value")
    return False, value


def _messages(value: Untyped) -> list[Message]:
    if isinstance(value, (Message, Mapping)):
        return [validated(value)]
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise RequestError(f"the board got {shortened(repr(value))}; expected messages, as the state shows them")
    return [validated(message) for message in value]


class RemovableValue(LastValue[AnyState]):
    """The last value that was written; None removes it, and its key is then absent from the state."""

    def update(self, values: Sequence[AnyState]) -> bool:
        """Apply the write of a superstep, and return whether anything changed."""
        was_there = self.is_available()
        changed = super().update(values)
        if changed and self.value is None:
            self.value = LastValue(self.typ).value  # LangGraph's own mark of an empty channel
            return was_there
        return changed
