"""The LangGraph state channel that holds a discussion's messages, each under its key, in a fixed order.

A write of an equal message is a no-op, so replays and retries are harmless; different content under
one key is an error. Checkpoints hold plain JSON, and messages may arrive as JSON (Studio, HTTP).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from langgraph.channels.base import BaseChannel
from langgraph.types import Overwrite

from sottovoce.channels.message import Message
from sottovoce.errors import BoardConflict

OVERWRITE = "__overwrite__"  # how an Overwrite looks after a trip through JSON
Wire = list[dict[str, Any]]  # Any: plain JSON


class Board(BaseChannel[list[Message], Any, Wire]):  # Any: a write is a message, its JSON, or a list of them
    """Messages by (round, agent, act, attempt)."""

    def __init__(self, typ: Any, key: str = "") -> None:  # Any: a type, as LangGraph passes it
        """Start empty."""
        super().__init__(typ, key)
        self._messages: dict[tuple[int, str, str, int], Message] = {}

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
        return [message.to_dict() for message in self.get()]

    def from_checkpoint(self, checkpoint: Wire | Any) -> Self:  # Any: LangGraph's marker for "no checkpoint"
        """A board with the messages of a checkpoint."""
        new = type(self)(self.typ, self.key)
        if isinstance(checkpoint, (list, tuple)):
            new._messages = {message.key: message for message in map(_message, checkpoint)}
        return new

    def get(self) -> list[Message]:
        """All messages, ordered by round, agent, act and attempt."""
        return [self._messages[key] for key in sorted(self._messages, key=_order)]

    def is_available(self) -> bool:
        """A board can always be read."""
        return True

    def update(self, values: Sequence[Any]) -> bool:  # Any: see the class
        """Take the writes of a superstep; tells whether anything changed."""
        before = dict(self._messages)
        for value in values:
            replaced = _overwritten(value)
            if replaced is not None:
                self._messages = {}
                value = replaced
            for message in _messages(value):
                self._add(message)
        return before != self._messages

    def _add(self, message: Message) -> None:
        there = self._messages.get(message.key)
        if there is not None and there != message:
            round, agent, act, attempt = message.key
            raise BoardConflict(
                f"two different messages of {agent!r} for round {round}, act {act!r}, attempt {attempt}: "
                f"{there.text[:60]!r} and {message.text[:60]!r}; raise `attempt` to replace one"
            )
        self._messages[message.key] = message


def latest(messages: Iterable[Message]) -> list[Message]:
    """Of each (round, agent, act) only the highest attempt, in the board's order."""
    kept: dict[tuple[int, str, str], Message] = {}
    for message in sorted(messages, key=lambda message: _order(message.key)):
        kept[message.key[:3]] = message
    return list(kept.values())


def _order(key: tuple[int, str, str, int]) -> tuple[int, list[tuple[int, str]], str, int]:
    """Agents in natural order: agent_2 before agent_10."""
    round, agent, act, attempt = key
    pieces: list[tuple[int, str]] = []
    for piece in agent.split("_"):
        pieces.append((int(piece), "") if piece.isdecimal() else (-1, piece))
    return (round, pieces, act, attempt)


def _overwritten(value: Any) -> Any:  # Any: see Board
    if isinstance(value, Overwrite):
        return value.value
    if isinstance(value, Mapping) and set(value) == {OVERWRITE}:
        return value[OVERWRITE]
    return None


def _messages(value: Any) -> list[Message]:  # Any: see Board
    return [_message(value)] if isinstance(value, (Message, Mapping)) else [_message(each) for each in value]


def _message(value: Message | Mapping[str, Any]) -> Message:
    return value if isinstance(value, Message) else Message.from_dict(value)
