"""A graph whose thread runs one discussion after another, each as in a new thread; the checkpoints store all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Self

from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.graph import START, StateGraph

from sottovoce.channels.board import OVERWRITE, Board
from sottovoce.channels.input_channel import InputChannel, RemovableValue
from sottovoce.core.errors import RequestError, UsageError
from sottovoce.graphs.runtime.compiled import CompiledDiscussion
from sottovoce.nodes.question import check_question
from sottovoce.nodes.state import Update


class DiscussionGraph(StateGraph[Any, Any, Any, Any]):  # Any: the types of every scheme
    """A StateGraph that refuses invalid input before its thread changes, and clears a key if None is written to it."""

    def __init__(
        self,
        state: type[Any],
        check: Callable[[Any], object],
        speakers: Callable[[], Collection[str]],
        **schemas: Any,  # Any: LangGraph's
    ) -> None:
        """Create the graph; `check` refuses an edited state that routers cannot read, `schemas` are LangGraph's own.

        `speakers` returns all agents that may have messages on the board.
        """
        super().__init__(state, **schemas)
        self._check, self.speakers = check, speakers

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Self:  # Any: LangGraph's own
        """Add a router that first checks the state: during an edit it reads a person's values before any node does."""

        @wraps(path)
        def route(state: Any) -> Any:  # Any: see above
            with _requested():
                self._check(state)
            return path(state)

        return super().add_conditional_edges(source, route, path_map)

    def compile(self, *args: Any, **told: Any) -> CompiledDiscussion:  # Any: LangGraph's own
        """Compile the graph as LangGraph does, with our own channels instead of its plain ones."""
        compiled = super().compile(*args, **told)
        compiled.__class__ = CompiledDiscussion  # LangGraph (1.2) has no parameter for the class
        compiled.channels.update({key: _ours(key, channel) for key, channel in compiled.channels.items()})
        compiled.channels[START] = InputChannel(self.input_schema, self._taken)
        assert isinstance(compiled, CompiledDiscussion)
        return compiled

    def _taken(self, asked: Any) -> None:  # Any: the input's own type
        """Refuse input that is no question under any settings; the opening checks the rest."""
        with _requested():
            check_question(asked, None, schema=self.input_schema)

    def anew(self) -> Update:
        """Return the update that removes all of a discussion except its question."""
        asked = self.schemas[self.input_schema]
        return {key: _nothing(channel) for key, channel in self.channels.items() if key not in asked}


@contextmanager
def _requested() -> Iterator[None]:
    """Turn a UsageError into a RequestError, which a server reports as the client's fault."""
    try:
        yield
    except UsageError as error:
        raise RequestError(str(error)) from error


def _nothing(channel: Any) -> Any:  # Any: a channel, and the value that empties it
    if isinstance(channel, Board):
        return {OVERWRITE: []}
    if isinstance(channel, BinaryOperatorAggregate) and channel.is_available():
        return {OVERWRITE: channel.get()}  # its initial value
    return None


def _ours(key: str, channel: Any) -> Any:  # Any: a channel of any type
    if type(channel) is LastValue:
        return RemovableValue(channel.typ, key)
    if isinstance(channel, BinaryOperatorAggregate):
        gathering: Any = BinaryOperatorAggregate(channel.typ, _refusing(key, channel.operator))
        gathering.key = key
        return gathering
    return channel


def _refusing(key: str, reduce: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:  # Any: the key's own type
    """Return a reducer that raises a RequestError with the value if it cannot be reduced."""

    @wraps(reduce)
    def reduced(before: Any, given: Any) -> Any:  # Any: see above
        try:
            return reduce(before, given)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise RequestError(f"{key} got {given!r}, which is not of its type: {error}") from error

    return reduced
