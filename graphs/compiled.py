"""The graph of discussions and its compiled form. That checks its inputs: a question, an edit, a state to continue.

The nodes trust the state. An input that LangGraph would accept and lose is refused before the thread changes. A thread
runs one discussion after another, each as in a new thread; the checkpoints store all.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence, Set
from contextlib import aclosing, contextmanager
from itertools import chain
from typing import Annotated, Any, Self, get_type_hints

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.channels import BinaryOperatorAggregate, LastValue, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Overwrite, StateSnapshot, StateUpdate
from typing_extensions import TypedDict

from sottovoce.channels.board import OVERWRITE, Board, RemovableValue
from sottovoce.channels.message import Message
from sottovoce.core.any_types import AnyState, Untyped
from sottovoce.core.display import ShownDict, ShownList
from sottovoce.core.errors import RequestError, UsageError, nearest
from sottovoce.core.text import one_line, shortened
from sottovoce.graphs.inputs import OWN, check_settings, check_siblings, filled, is_nested, marked, written_by
from sottovoce.nodes.act import RecordedNode
from sottovoce.nodes.question import check_question
from sottovoce.nodes.state import BOARD, CHAT, SHOWN, Discussion, Update
from sottovoce.nodes.streams import chat_of

FIRST = "opening"
"""The first node of every scheme, which checks the question and writes the settings."""


Check = Callable[..., None]
"""A check of a whole state, which raises a UsageError; with `started=False` only of the types of its values."""


class CompiledDiscussion(CompiledStateGraph[Untyped, Untyped, Untyped, Untyped]):
    """A compiled graph. Its threads take a new question only after the last discussion, and only valid edits."""

    def __init__(self, check: Check, optional: Set[str], **fields: Any) -> None:
        """Create the graph from the fields of a CompiledStateGraph.

        `check` refuses an invalid state; an edit may remove the keys `optional`.
        """
        super().__init__(**fields)
        vars(self).update(fields)  # its constructor ignores private ones
        self.check, self.optional = check, optional

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """Stream as LangGraph does.

        Raises:
            RequestError: the input is no question, or came in the middle of a discussion; or the state to continue from
                is invalid; or the input or `configurable` has a setting, which belongs in `context`.
        """
        given = self._entering(input, config, options.get("context"))
        if thread := self._own_thread(config):
            self._check_entry(input, super().get_state(thread))
        yield from map(as_json, super().stream(given, config, **options))

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncGenerator[Any]:
        """Stream as LangGraph does. Errors: see `stream`."""
        given = self._entering(input, config, options.get("context"))
        if thread := self._own_thread(config):
            # A check may read prompts of the model, and a server refuses to wait for files in its event loop.
            await to_thread(self._check_entry, input, await super().aget_state(thread))
        stream: Any = super().astream(given, config, **options)  # Any: a generator, which a caller may close early
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                yield as_json(chunk)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return LangGraph's result, with a decision and messages that a notebook shows. Errors: see `stream`."""
        return _shown(super().invoke(input, config, **options))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Return the result of `invoke`."""
        return _shown(await super().ainvoke(input, config, **options))

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state as LangGraph does, as JSON, with the discussion so far as `messages`, not in checkpoints."""
        return _with_chat(super().get_state(config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state as `get_state` does."""
        return _with_chat(await super().aget_state(config, subgraphs=subgraphs))

    def get_state_history(self, config: RunnableConfig, **options: Any) -> Iterator[StateSnapshot]:
        """Return the history as LangGraph does, each state as `get_state` returns it."""
        return map(_with_chat, super().get_state_history(config, **options))

    async def aget_state_history(self, config: RunnableConfig, **options: Any) -> AsyncGenerator[StateSnapshot]:
        """Yield the history as `get_state_history` does."""
        async for snapshot in super().aget_state_history(config, **options):
            yield _with_chat(snapshot)

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Update the state as LangGraph does.

        Raises:
            RequestError: a key is unknown (LangGraph would ignore it), the edited state is invalid, or other nodes
                of the same step would be dropped: see `check_siblings`.
        """
        before = super().get_state(_at(config, super().get_state(config)))
        return super().bulk_update_state(config, self._checked_edits(before, supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state as `bulk_update_state` does."""
        before = await super().aget_state(_at(config, await super().aget_state(config)))
        return await super().abulk_update_state(config, await to_thread(self._checked_edits, before, supersteps))

    def _entering(self, input: Any, config: RunnableConfig | None, context: Any) -> Any:  # Any: plain or not
        """Return a question with all its keys, if it is one under some settings. The first node checks the rest.

        Its check's types are made here, on one thread: CPython 3.11 parses sources in several threads at once wrongly.
        """
        if not is_nested():
            configurable = merge_configs(self.config, config).get("configurable", {})
            fields = getattr(self.builder.context_schema, "model_fields", {})
            check_settings(input, configurable, context, fields, self.builder.channels)
        if input is None or isinstance(input, Command):
            return input
        question = filled(input, self.builder.schemas[self.builder.input_schema])
        present: Any = {key: value for key, value in question.items() if value is not None}
        with as_request():
            check_question(present, None, schema=self.builder.input_schema)
        return question

    def _own_thread(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of this graph's own thread, or None if there is none or it runs inside another graph."""
        if not isinstance(self.checkpointer, BaseCheckpointSaver):
            return None
        thread = merge_configs(self.config, config)
        return thread if "thread_id" in thread.get("configurable", {}) and not is_nested() else None

    def _check_entry(self, input: Any, snapshot: StateSnapshot) -> None:
        """Check a question, a command or (for None) the state to continue from."""
        values = snapshot.values
        if isinstance(input, Command) and not snapshot.created_at:  # LangGraph (1.2) would treat it as an input
            raise RequestError(
                "a Command was given to a thread without a discussion; ask a question first, or check the thread_id"
            )
        if isinstance(input, Command):
            self._check_edit(snapshot, [StateUpdate(input.update)] if input.update else [])
        elif input is None:
            with as_request():
                self.check(values, started=not {*snapshot.next} <= {START, FIRST})
        elif (values.get("board") or values.get("pending")) and not values.get("decision"):
            raise RequestError(
                "this thread has a discussion that is not over; continue it (with None as the input), or ask the "
                "question in another thread"
            )

    def _checked_edits(
        self, snapshot: StateSnapshot, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> Sequence[Sequence[StateUpdate]]:
        edits = [[marked(edit, snapshot) for edit in step] for step in supersteps]
        for as_node in (edit.as_node for edit in chain.from_iterable(edits)):
            if as_node not in [None, *OWN, *self.builder.nodes]:
                raise RequestError(f"as_node: {nearest('node', as_node, self.builder.nodes)}")
        self._check_edit(snapshot, [*chain.from_iterable(edits)])
        for first in edits[:1]:
            check_siblings(self.builder, snapshot, first)
        return edits

    def _check_edit(self, snapshot: StateSnapshot, edits: Sequence[StateUpdate]) -> None:
        """Refuse edits that make a state invalid, or that have unknown keys."""
        ns = snapshot.config.get("configurable", {}).get("checkpoint_ns")
        if ns and "settings" not in snapshot.values:
            return  # the state of a subgraph, which has other keys
        values = dict(snapshot.values)
        for edit in edits:
            for name, value in written_by(edit).items():
                self._write(values, name, value)
        skips_first = not {edit.as_node for edit in edits} <= {None, START, FIRST}
        with as_request():
            self.check(values, started=skips_first or bool(values.keys() & {"settings", "round"}))

    def _write(self, values: dict[str, Any], name: Any, value: Any) -> None:  # Any: as somebody wrote them
        """Write a value to a key of a state's values, as LangGraph will."""
        builder = self.builder
        if name not in builder.channels:
            raise RequestError(nearest("key of the state:", name, sorted(builder.channels)))
        if value is None and name in values and name in builder.channels.keys() - self.optional:
            raise RequestError(f"None would remove {name!r}, which the graph's nodes read; write a value of its type")
        channel: Any = self.channels[name]
        assert isinstance(channel, BaseChannel), "a key of the state has a channel"
        channel = channel.from_checkpoint(values[name]) if name in values else channel.copy()
        try:
            channel.update([value])
        except (TypeError, ValueError, LookupError, AttributeError) as error:  # of a reducer
            what = f"{name} got {shortened(repr(value))}, which is not of its type"
            raise RequestError(f"{what}: {one_line(str(error))}") from error
        values.pop(name, None)
        if channel.is_available():
            values[name] = channel.get()


def _at(config: RunnableConfig, now: StateSnapshot) -> RunnableConfig:
    """Return the config with its checkpoint; its state is from before the step, without replies in the step."""
    at = {name: id for name, id in now.config.get("configurable", {}).items() if name == "checkpoint_id"}
    return merge_configs(config, {"configurable": at})


def _with_chat(snapshot: StateSnapshot) -> StateSnapshot:
    values = snapshot.values
    if not isinstance(values, dict) or not {"question", "board"} <= values.keys():
        return snapshot
    messages = chat_of(values, values.get("decision"))  # type: ignore[arg-type]  # it reads the keys that exist
    return snapshot._replace(values=_shown(as_json({**values, "messages": messages})))


def _shown(values: Any) -> Any:  # Any: a state's values, or what else LangGraph returns
    """Return a state whose decision and messages have `_repr_html_`; inside another graph it stays plain."""
    if not isinstance(values, dict) or is_nested():
        return values
    kinds: dict[str, type[Any]] = {"decision": ShownDict, "board": ShownList, "messages": ShownList}
    return {key: kinds[key](each) if key in kinds and each is not None else each for key, each in values.items()}


def as_json(value: Any) -> Any:  # Any: what LangGraph streams or returns
    """Return a value that leaves the graph as plain JSON: the messages in it as their fields."""
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, dict):
        if isinstance(value.get(FIRST), dict):
            value = {**value, FIRST: _opened(value[FIRST])}
        return {key: as_json(each) for key, each in value.items()}
    return type(value)(map(as_json, value)) if type(value) in (list, tuple) else value


def _opened(update: Update) -> Update:
    """Return the first node's update as on a thread's first question, without the values that clear an earlier one."""
    kept = {key: each for key, each in update.items() if each is not None and not isinstance(each, Overwrite)}
    return {key: each.get(OVERWRITE, each) if isinstance(each, dict) else each for key, each in kept.items()}


@contextmanager
def as_request() -> Iterator[None]:
    """Turn a UsageError into a RequestError, which a server reports as the client's fault."""
    try:
        yield
    except UsageError as error:
        raise RequestError(str(error)) from error


class _Shown(TypedDict):
    messages: list[AnyMessage]


CHANNELS: Mapping[str, Any] = {
    BOARD: Annotated[list[Message], Board],
    CHAT: Annotated[list[AnyMessage], UntrackedValue],
    SHOWN: get_type_hints(_Shown)["messages"],  # without the tags of the union, which would change the schema
}


def with_channels(schema: type[Any]) -> type[Any]:
    """Return a state with LangGraph's channels in place of their marks."""
    hints = get_type_hints(schema, include_extras=True)
    marked = {
        name: CHANNELS.get(next(iter(getattr(hint, "__metadata__", ())), ""), hint) for name, hint in hints.items()
    }
    return schema if marked == hints else TypedDict(schema.__name__, marked)  # type: ignore[operator]  # made at run time


class DiscussionGraph(StateGraph[AnyState, AnyState, AnyState, AnyState]):
    """A StateGraph that refuses invalid input before its thread changes, and clears a key if None is written to it."""

    def __init__(self, state: type[Untyped], check: Check, **schemas: Untyped) -> None:
        """Create the graph; `check` refuses an invalid state, `schemas` are LangGraph's own."""
        super().__init__(with_channels(state), **{name: with_channels(each) for name, each in schemas.items()})
        self.check = check

    def add_node(self, node: Untyped, action: Untyped = None, **options: Untyped) -> Self:
        """Add a node as LangGraph does; a saved run records its steps."""
        before = len(self.nodes)
        super().add_node(node, action, **options)
        for name in [*self.nodes][before:]:
            inner: Untyped = self.nodes[name].runnable  # a Runnable by now
            self.nodes[name].runnable = RecordedNode(inner, name, self, self.check)
        return self

    def compile(self, *args: Untyped, **options: Untyped) -> CompiledDiscussion:
        """Compile the graph as LangGraph does, with our own channels instead of its plain ones."""
        compiled = super().compile(*args, **options)
        for node in compiled.nodes.values():
            if isinstance(node.bound, RecordedNode):  # LangGraph looks for a graph in the node that it knows
                node.subgraphs = node.copy({"bound": node.bound.node, "subgraphs": None}).subgraphs
        channels = {
            key: RemovableValue(channel.typ, key) if type(channel) is LastValue else channel
            for key, channel in compiled.channels.items()
        }
        # An edit may remove all but a scheme's own keys; `check` says which others are missing.
        optional = {*get_type_hints(Discussion), *self.schemas[self.input_schema]}
        return CompiledDiscussion(self.check, optional, **{**vars(compiled), "channels": channels})

    def cleared(self) -> Update:
        """Return the update that removes all of a discussion except its question."""
        inputs, channels = self.schemas[self.input_schema], self.channels.items()
        stored = {key: channel for key, channel in channels if not isinstance(channel, UntrackedValue)}
        return {key: _empty_value(channel) for key, channel in stored.items() if key not in inputs}


def _empty_value(channel: AnyState) -> AnyState:
    if isinstance(channel, Board):
        return Overwrite([])
    if isinstance(channel, BinaryOperatorAggregate) and channel.is_available():
        return Overwrite(channel.get())  # its initial value
    return None
