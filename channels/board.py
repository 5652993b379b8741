"""The LangGraph state channel that holds all messages of a discussion, each at its place, in order of time.

A write of an equal message is a no-op, so replays and retries are harmless; another text at one place
is an error. Nothing is ever taken away: what a reset withdrew stays here for the record, and readers
take the current epoch (`nodes.state.heard`). Checkpoints hold plain JSON, and messages may arrive as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from langgraph.channels.base import BaseChannel
from langgraph.types import Overwrite

from sottovoce.channels.message import EDITED, Message, Place
from sottovoce.channels.written import written
from sottovoce.errors import BoardConflict, RequestError

OVERWRITE = "__overwrite__"  # how an Overwrite looks after a trip through JSON
Wire = list[dict[str, Any]]  # Any: plain JSON


class Board(BaseChannel[list[Message], Any, Wire]):  # Any: a write is a message, its JSON, or a list of them
    """Messages by their `Place`."""

    def __init__(self, typ: Any, key: str = "") -> None:  # Any: a type, as LangGraph passes it
        """Start empty."""
        super().__init__(typ, key)
        self._messages: dict[Place, Message] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Board)

    __hash__ = None  # type: ignore[assignment]  # mutable

    @property
    def ValueType(self) -> Any:  # Any: LangGraph's own signature
        """What nodes read."""
        return list[Message]

    @property
    def UpdateType(self) -> Any:  # Any: LangGraph's own signature
        """What nodes write."""
        return list[Message]

    def copy(self) -> Self:
        """An independent board with the same messages."""
        new = type(self)(self.typ, self.key)
        new._messages = dict(self._messages)
        return new

    def checkpoint(self) -> Wire:
        """Plain JSON, in order."""
        return [_kept(message) for message in self.get()]

    def from_checkpoint(self, checkpoint: Wire | Any) -> Self:  # Any: LangGraph's marker for "no checkpoint"
        """A board with the messages of a checkpoint."""
        new = type(self)(self.typ, self.key)
        if isinstance(checkpoint, (list, tuple)):
            new._messages = {message.place: message for message in map(_message, checkpoint)}
        return new

    def get(self) -> list[Message]:
        """All messages by epoch, round, turn and the agents' order; one agent's in one turn as they came."""
        return sorted(self._messages.values(), key=lambda message: (message.epoch, *message.time, message.order))

    def is_available(self) -> bool:
        """A board can always be read."""
        return True

    def update(self, values: Sequence[Any]) -> bool:  # Any: see the class
        """Take the writes of a superstep; tells whether anything changed.

        Raises:
            RequestError: a write is no message.
            BoardConflict: another message stands at its place.
        """
        before = self._messages
        self._messages = dict(before)
        for value in values:
            overwrites, written = _overwritten(value)
            if overwrites:
                self._messages = {}
            for message in _messages(written):
                self._add(message)
        return before != self._messages

    def _add(self, message: Message) -> None:
        """The first of equal messages stays: bits of payloads may differ by rounding where a step is done again."""
        message = _marked(message)
        there = self._messages.setdefault(message.place, message)
        if (there.text, there.source) != (message.text, message.source):
            raise BoardConflict(
                f"two different messages of {message.place}: "
                f"{there.text[:60]!r} and {message.text[:60]!r}; raise `attempt` to replace one"
            )


def _overwritten(value: Any) -> tuple[bool, Any]:  # Any: see Board
    """Whether it takes the place of all that is there, and what was written."""
    if isinstance(value, Overwrite):
        return True, value.value
    if isinstance(value, Mapping) and set(value) == {OVERWRITE}:
        return True, value[OVERWRITE]
    if isinstance(value, Mapping) and value.get("type") == OVERWRITE:  # as JSON has the dataclass
        return True, value.get("value")
    return False, value


def _messages(value: Any) -> list[Message]:  # Any: see Board
    if isinstance(value, (Message, Mapping)):
        return [written(value)]
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise RequestError(f"the board is given {value!r}; expected messages, as the state shows them")
    return [written(each) for each in value]


def _kept(message: Message) -> dict[str, Any]:  # Any: plain JSON
    """Its JSON without the summaries, which are made anew: savers keep every message many times."""
    data = message.to_dict()
    for ref in filter(None, (data["payload"], data.get("measured"))):
        del ref["summary"]
    return data


def _marked(message: Message) -> Message:
    """One whose text was edited after it was spoken says so."""
    edited = message.payload is not None and message.latent is None and EDITED not in message.notes
    return replace(message, notes=(*message.notes, EDITED)) if edited else message


def _message(value: Message | Mapping[str, Any]) -> Message:
    return value if isinstance(value, Message) else Message.from_dict(value)
