"""The LangGraph state channels of what is asked: where a question enters, and values that can be taken away again.

So a thread takes one question after another: what the next one does not give is not the last one's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Self, get_type_hints

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.channels import EphemeralValue, LastValue, UntrackedValue
from langgraph.config import get_config
from langgraph.types import Command
from pydantic import BaseModel

from sottovoce.errors import RequestError, nearest

Check = Callable[[Any], None]  # Any: the input's `TypedDict`


class Given(LastValue[Any]):  # Any: as the state's type has it
    """The last value that was written; None takes it away, and its key is then absent from the state."""

    def update(self, values: Sequence[Any]) -> bool:  # Any: see the class
        """Take the write of a superstep; tells whether anything changed."""
        was_there = self.is_available()
        written = super().update(values)
        if written and self.value is None:
            self.value = LastValue(self.typ).value  # LangGraph's own mark of a channel that holds nothing
            return was_there
        return written


class Chat(UntrackedValue[Any]):  # Any: messages, or their JSON
    """The discussion as LangChain's messages: no checkpoint has them, as the board and the decision are there."""

    def get(self) -> list[BaseMessage]:
        """The messages.

        Raises:
            RequestError: what was written are none.
        """
        return _read(super().get())

    def update(self, values: Sequence[Any]) -> bool:  # Any: see the class
        """Take a write; None takes the messages away."""
        changed = super().update(values)
        if self.value is None:
            self.value = UntrackedValue(self.typ).value  # LangGraph's own mark of a channel that holds nothing
        return changed


class Entry(EphemeralValue[Any]):  # Any: the input of every scheme
    """Where a question enters a graph, before anything of its thread changes; its type is the input's `TypedDict`."""

    def __init__(self, typ: Any, check: Check) -> None:  # Any: LangGraph's own
        """`check` refuses an input whose keys are right."""
        super().__init__(typ)
        self._check = check

    def copy(self) -> Self:
        """As it is."""
        return self.from_checkpoint(self.value)

    def from_checkpoint(self, checkpoint: Any) -> Self:  # Any: see the class
        """With what a checkpoint holds, or LangGraph's mark of nothing."""
        new = type(self)(self.typ, self._check)
        new.key, new.value = self.key, checkpoint
        return new

    def update(self, values: Sequence[Any]) -> bool:  # Any: as it was given
        """Take an input.

        Raises:
            RequestError: it is no dict, has a key that is not in the type, or is no question.
        """
        taken = [filled(_asked(value), self.typ) for value in values]
        for each in taken:
            # LangGraph (1.2) draws a graph with an empty input; of a thread the opening refuses it.
            if given := {name: value for name, value in each.items() if value is not None}:
                self._check(given)
        return super().update(taken)


def filled(value: Any, schema: type[Any]) -> dict[str, Any]:  # Any: an input as it was given
    """An input with all keys of `schema`, None where one was not given.

    A graph inside another one is passed all that the other's state holds: keys that it does not know are left out
    there, and refused everywhere else.

    Raises:
        RequestError: it is no dict, or has an unknown key.
    """
    found, known = _by_key(value), _keys(schema)  # type: ignore[arg-type]  # mypy holds type[Any] for unhashable
    unknown = [key for key in found if key not in known]
    if unknown and not is_nested():
        raise RequestError(nearest("key in the input:", unknown[0], known))
    return {key: found.get(key) for key in known}


def _asked(value: Any) -> Any:  # Any: an input as it was given
    """An input, with the last human message as its question where it has none: so chat front ends ask."""
    if not isinstance(value, Mapping) or "messages" not in value or value.get("question") is not None:
        return value
    asked = [message for message in _read(value["messages"]) if message.type == "human"]
    if not asked and not is_nested():
        raise RequestError(f"messages are {value['messages']!r}, none of them a person's; expected the question there")
    if not asked:
        return value
    rest = {key: each for key, each in value.items() if key != "messages"}
    return {**rest, "question": str(asked[-1].text)}


def _read(messages: Any) -> list[BaseMessage]:  # Any: as it was given
    try:
        return convert_to_messages(messages if isinstance(messages, list | tuple) else [messages])
    except (ValueError, TypeError, NotImplementedError, KeyError) as error:
        raise RequestError(f"messages are {messages!r}; expected LangChain's, or their JSON") from error


def is_nested() -> bool:
    """Whether this runs in a node of another graph, which may know keys that are no affair of ours."""
    try:
        return "langgraph_node" in (get_config().get("metadata") or {})
    except RuntimeError:  # in no graph at all
        return False


def _by_key(value: Any) -> Mapping[str, Any]:  # Any: see `filled`
    """A parent's state may be a pydantic model or a dataclass."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Command):  # LangGraph (1.2) takes it for an input where a thread has no checkpoint
        raise RequestError(
            "a Command was given to a thread that holds no discussion; ask a question first, or look at its thread_id"
        )
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise RequestError(f"the input is {value!r}; expected a dict, like {{'question': 'What is 1 + 1?'}}")


@cache
def _keys(schema: type[Any]) -> tuple[str, ...]:
    return tuple(get_type_hints(schema))
