"""A graph whose thread runs one discussion after another, each as in a new thread; the checkpoints store all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.graph import START, StateGraph

from sottovoce.channels.board import OVERWRITE, Board
from sottovoce.channels.input_channel import InputChannel, RemovableValue
from sottovoce.core.errors import RequestError
from sottovoce.graphs.runtime.compiled import Check, CompiledDiscussion, as_request
from sottovoce.nodes.question import check_question
from sottovoce.nodes.state import Update


class DiscussionGraph(StateGraph[Any, Any, Any, Any]):  # Any: the types of every scheme
    """A StateGraph that refuses invalid input before its thread changes, and clears a key if None is written to it."""

    def __init__(self, state: type[Any], check: Check, **schemas: Any) -> None:  # Any: LangGraph's
        """Create the graph; `check` refuses an invalid state, `schemas` are LangGraph's own."""
        super().__init__(state, **schemas)
        self.check = check

    def compile(self, *args: Any, **options: Any) -> CompiledDiscussion:  # Any: LangGraph's own
        """Compile the graph as LangGraph does, with our own channels instead of its plain ones."""
        compiled = super().compile(*args, **options)
        channels = {key: _channel(key, channel) for key, channel in compiled.channels.items()}
        channels[START] = InputChannel(self.input_schema, self._check_input)
        return CompiledDiscussion(**{**vars(compiled), "channels": channels}, check=self.check)

    def _check_input(self, question: Any) -> None:  # Any: the input's own type
        """Refuse input that is no question under any settings; the first node checks the rest."""
        with as_request():
            check_question(question, None, schema=self.input_schema)

    def cleared(self) -> Update:
        """Return the update that removes all of a discussion except its question."""
        inputs = self.schemas[self.input_schema]
        return {key: _empty_value(channel) for key, channel in self.channels.items() if key not in inputs}


def _empty_value(channel: Any) -> Any:  # Any: a channel, and the value that empties it
    if isinstance(channel, Board):
        return {OVERWRITE: []}
    if isinstance(channel, BinaryOperatorAggregate) and channel.is_available():
        return {OVERWRITE: channel.get()}  # its initial value
    return None


def _channel(key: str, channel: Any) -> Any:  # Any: a channel of any type
    """Return our channel in place of a plain one of LangGraph."""
    if type(channel) is LastValue:
        return RemovableValue(channel.typ, key)
    if isinstance(channel, BinaryOperatorAggregate):
        aggregate: Any = BinaryOperatorAggregate(channel.typ, _checked_reducer(key, channel.operator))
        aggregate.key = key
        return aggregate
    return channel


def _checked_reducer(key: str, reduce: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:  # Any: the key's own
    """Return a reducer that raises a RequestError with the value if it cannot be reduced."""

    @wraps(reduce)
    def reduced(before: Any, value: Any) -> Any:  # Any: see above
        try:
            return reduce(before, value)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise RequestError(f"{key} got {value!r}, which is not of its type: {error}") from error

    return reduced
