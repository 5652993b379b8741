"""A graph whose thread holds one discussion after another, each as in a thread of its own; the checkpoints keep all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Self

from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.graph import START, StateGraph

from sottovoce.channels.board import OVERWRITE, Board
from sottovoce.channels.entry import Entry, Given
from sottovoce.errors import RequestError, UsageError
from sottovoce.graphs.compiled import CompiledDiscussion
from sottovoce.nodes.question import check_question
from sottovoce.nodes.state import Update


class DiscussionGraph(StateGraph[Any, Any, Any, Any]):  # Any: the types of every scheme
    """A StateGraph that refuses what is no input before its thread changes, and forgets what None is written to."""

    def __init__(
        self,
        state: type[Any],
        check: Callable[[Any], object],
        speakers: Callable[[], Collection[str]],
        **schemas: Any,  # Any: LangGraph's
    ) -> None:
        """`check` refuses a state that no router can read, as somebody edited it; `schemas` are LangGraph's own.

        `speakers` are all who may have messages on the board.
        """
        super().__init__(state, **schemas)
        self._check, self.speakers = check, speakers

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Self:  # Any: LangGraph's own
        """A router reads what a person wrote before any node does, while an edit is made."""

        @wraps(path)
        def route(state: Any) -> Any:  # Any: see above
            with _requested():
                self._check(state)
            return path(state)

        return super().add_conditional_edges(source, route, path_map)

    def compile(self, *args: Any, **told: Any) -> CompiledDiscussion:  # Any: LangGraph's own
        """As LangGraph compiles it, with channels of ours where it puts its plain ones."""
        compiled = super().compile(*args, **told)
        compiled.__class__ = CompiledDiscussion  # LangGraph (1.2) lets nobody say of which class it makes one
        compiled.channels.update({key: _ours(key, channel) for key, channel in compiled.channels.items()})
        compiled.channels[START] = Entry(self.input_schema, self._taken)
        assert isinstance(compiled, CompiledDiscussion)
        return compiled

    def _taken(self, asked: Any) -> None:  # Any: the input's own type
        """Refuse what is no question whatever the settings; the opening refuses the rest."""
        with _requested():
            check_question(asked, None, schema=self.input_schema)

    def anew(self) -> Update:
        """The update that takes away all of a discussion but its question."""
        asked = self.schemas[self.input_schema]
        return {key: _nothing(channel) for key, channel in self.channels.items() if key not in asked}


@contextmanager
def _requested() -> Iterator[None]:
    """What is refused here is the fault of a request, as a server tells it."""
    try:
        yield
    except UsageError as error:
        raise RequestError(str(error)) from error


def _nothing(channel: Any) -> Any:  # Any: a channel, and what empties it
    if isinstance(channel, Board):
        return {OVERWRITE: []}
    if isinstance(channel, BinaryOperatorAggregate) and channel.is_available():
        return {OVERWRITE: channel.get()}  # what it begins with
    return None


def _ours(key: str, channel: Any) -> Any:  # Any: a channel of any type
    if type(channel) is LastValue:
        return Given(channel.typ, key)
    if isinstance(channel, BinaryOperatorAggregate):
        gathering: Any = BinaryOperatorAggregate(channel.typ, _refusing(key, channel.operator))
        gathering.key = key
        return gathering
    return channel


def _refusing(key: str, reduce: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:  # Any: the key's own type
    """A reducer that says what it was given where it cannot take it."""

    @wraps(reduce)
    def reduced(before: Any, given: Any) -> Any:  # Any: see above
        try:
            return reduce(before, given)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise RequestError(f"{key} is given {given!r}, which is not of its type: {error}") from error

    return reduced
