"""LangGraph state channels: the board of all messages, the entry of a question, and values that can be removed again.

The board has each message at its place, in order of time. Writing an equal message again has no effect, so replays and
retries are harmless; a different text at the same place is an error. Messages are never removed: those that a reset
withdrew stay for the record, and readers use the current epoch (`nodes.state.current_messages`). Checkpoints store
plain JSON; messages may come as JSON.

The others let a thread take one question after another: a value that the next question lacks is not kept from the last
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Self, get_type_hints

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.channels import EphemeralValue, LastValue, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.config import get_config
from langgraph.types import Command, Overwrite
from pydantic import BaseModel

from sottovoce.channels.message import EDITED, RARE_REFS, Message, Place, validated
from sottovoce.core.any_types import JSON, AnyState, JSONValue, Untyped
from sottovoce.core.errors import BoardConflict, RequestError, nearest
from sottovoce.core.text import shortened

OVERWRITE = "__overwrite__"  # the key of an Overwrite in JSON
Wire = list[JSON]
Check = Callable[[Untyped], None]


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
        """Return all messages by epoch, round, turn and agent; those of one agent in one turn as they arrived."""
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


class Chat(UntrackedValue[JSONValue]):
    """The discussion as JSON of LangChain's messages; checkpoints omit it, since they have board and decision."""

    def get(self) -> list[JSON]:
        """Return the messages."""
        shown = ("type", "name", "content", "id")
        return [each.model_dump(mode="json", include={*shown}, exclude_none=True) for each in _read(super().get())]

    def update(self, values: Sequence[JSONValue]) -> bool:
        """Apply a write, and return whether anything changed; None removes the messages."""
        changed = super().update(values)
        if self.value is None:
            self.value = UntrackedValue(self.typ).value  # LangGraph's own mark of an empty channel
        return changed


class InputChannel(EphemeralValue[AnyState]):
    """The entry of a question into a graph, before its thread changes; its type is the input's `TypedDict`."""

    def __init__(self, typ: Untyped, check: Check) -> None:
        """Create the channel; `check` validates the values of an input whose keys are known."""
        super().__init__(typ)
        self._check = check

    def copy(self) -> Self:
        """Return a channel with the same value."""
        return self.from_checkpoint(self.value)

    def from_checkpoint(self, checkpoint: Untyped) -> Self:
        """Return a channel with a checkpoint's value, or with LangGraph's mark of an empty channel."""
        new = type(self)(self.typ, self._check)
        new.key, new.value = self.key, checkpoint
        return new

    def update(self, values: Sequence[Any]) -> bool:  # Any: inputs
        """Apply an input, and return whether anything changed.

        Raises:
            RequestError: it is not a dict, has a key that is not in the type, or is not a question.
        """
        inputs = [filled(_with_question(value), self.typ) for value in values]
        for input in inputs:
            # LangGraph (1.2) draws a graph with an empty input; in a thread, the setup node refuses it.
            if present := {name: value for name, value in input.items() if value is not None}:
                self._check(present)
        return super().update(inputs)


def filled(value: AnyState, schema: type[AnyState]) -> dict[str, AnyState]:
    """Return an input with all keys of `schema`; missing values are None.

    A subgraph gets the whole state of its parent: unknown keys are dropped there, and refused everywhere else.
    """
    values, known = _by_key(value), _keys(schema)  # type: ignore[arg-type]  # mypy holds type[Any] for unhashable
    unknown = [key for key in values if key not in known]
    if unknown and not is_nested():
        raise RequestError(nearest("key in the input:", unknown[0], known))
    return {key: values.get(key) for key in known}


def _with_question(value: AnyState) -> AnyState:
    """Return an input, with the last human message as its question if it has none, as chat front ends send it."""
    if not isinstance(value, Mapping) or "messages" not in value or value.get("question") is not None:
        return value
    questions = [message for message in _read(value["messages"]) if message.type == "human"]
    if not questions and not is_nested():
        raise RequestError(f"messages are {value['messages']!r}, without a human message; expected the question there")
    if not questions:
        return value
    rest = {key: item for key, item in value.items() if key != "messages"}
    return {**rest, "question": str(questions[-1].text)}


def _read(messages: Any) -> list[BaseMessage]:  # Any: a value of the input
    try:
        return convert_to_messages(messages if isinstance(messages, list | tuple) else [messages])
    except (ValueError, TypeError, NotImplementedError, KeyError) as error:
        raise RequestError(f"messages are {messages!r}; expected LangChain's, or their JSON") from error


def is_nested() -> bool:
    """Return True in a node of another graph, whose state may have other keys."""
    try:
        return "langgraph_node" in (get_config().get("metadata") or {})
    except RuntimeError:  # outside any graph
        return False


def _by_key(value: AnyState) -> Mapping[str, AnyState]:
    """Return an input as a mapping; a parent's state may be a pydantic model or a dataclass."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Command):  # LangGraph (1.2) treats it as an input if a thread has no checkpoint
        raise RequestError(
            "a Command was given to a thread without a discussion; ask a question first, or check the thread_id"
        )
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise RequestError(f"the input is {value!r}; expected a dict, like {{'question': 'What is 1 + 1?'}}")


@cache
def _keys(schema: type[Any]) -> tuple[str, ...]:
    return tuple(get_type_hints(schema))
