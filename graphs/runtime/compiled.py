"""The graph of discussions, and its compiled form, which checks what enters: a question, an edit, a state to continue.

The nodes trust the state. An input that LangGraph would accept and lose is refused before the thread changes. A thread
runs one discussion after another, each as in a new thread; the checkpoints store all.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from itertools import chain
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, StateUpdate

from sottovoce.channels.board import OVERWRITE, Board
from sottovoce.channels.input_channel import InputChannel, RemovableValue, is_nested
from sottovoce.core.any_types import AnyState, Untyped
from sottovoce.core.errors import RequestError, UsageError, nearest
from sottovoce.nodes.question import check_question
from sottovoce.nodes.state import Update
from sottovoce.nodes.streams import chat_of

FIRST = "opening"
"""The first node of every scheme, which checks the question and writes the settings."""


Check = Callable[..., None]
"""A check of a whole state, which raises a UsageError; with `started=False` only of the types of its values."""


class CompiledDiscussion(CompiledStateGraph[Untyped, Untyped, Untyped, Untyped]):
    """A compiled graph whose thread takes a new question only after the last discussion, and valid edits only."""

    def __init__(self, check: Check, **fields: Any) -> None:
        """Create the graph from the fields of a CompiledStateGraph; `check` refuses an invalid state."""
        super().__init__(**fields)
        vars(self).update(fields)  # its constructor ignores private ones
        self.check = check

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:
        """Stream as LangGraph does.

        Raises:
            RequestError: a question came in the middle of a discussion, or the state to continue from is invalid.
        """
        if thread := self._own_thread(config):
            self._check_entry(input, self.get_state(thread))
        yield from super().stream(input, config, **options)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncGenerator[Any]:
        """Stream as LangGraph does. Errors: see `stream`."""
        if thread := self._own_thread(config):
            # A check may read prompts of the model, and a server refuses to wait for files in its event loop.
            await to_thread(self._check_entry, input, await self.aget_state(thread))
        stream: Any = super().astream(input, config, **options)  # Any: a generator, which a caller may close early
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state as LangGraph does, with the discussion so far as `messages`, which checkpoints lack."""
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
        """Update the state as LangGraph does, but refuse an edit that makes it invalid.

        Raises:
            RequestError: a key is unknown, which LangGraph would ignore, or the edited state is invalid.
        """
        self._check_edit(super().get_state(config), [*chain.from_iterable(supersteps)])
        return super().bulk_update_state(config, supersteps)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state as `bulk_update_state` does."""
        await to_thread(self._check_edit, await super().aget_state(config), [*chain.from_iterable(supersteps)])
        return await super().abulk_update_state(config, supersteps)

    def _own_thread(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of this graph's own thread; None without one, or inside another graph."""
        if not isinstance(self.checkpointer, BaseCheckpointSaver):
            return None
        thread = merge_configs(self.config, config)
        return thread if "thread_id" in thread.get("configurable", {}) and not is_nested() else None

    def _check_entry(self, input: Any, snapshot: StateSnapshot) -> None:
        """Check a question, a command or (for None) the state to continue from."""
        values = snapshot.values
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

    def _check_edit(self, snapshot: StateSnapshot, edits: Sequence[StateUpdate]) -> None:
        """Refuse edits that make a state invalid, or that have unknown keys."""
        ns = snapshot.config.get("configurable", {}).get("checkpoint_ns")
        if ns and "settings" not in snapshot.values:
            return  # the state of a subgraph, which has other keys
        values = dict(snapshot.values)
        for edit in edits:
            for name, value in edit.values.items() if isinstance(edit.values, Mapping) else ():
                if name not in self.builder.channels:
                    raise RequestError(nearest("key of the state:", name, sorted(self.builder.channels)))
                channel: Any = self.channels[name]
                assert isinstance(channel, BaseChannel), "a key of the state has a channel"
                channel = channel.from_checkpoint(values[name]) if name in values else channel.copy()
                try:
                    channel.update([value])
                except (TypeError, ValueError, KeyError, AttributeError) as error:  # of a reducer
                    raise RequestError(f"{name} got {value!r}, which is not of its type: {error}") from error
                values.pop(name, None)
                if channel.is_available():
                    values[name] = channel.get()
        skips_first = not {edit.as_node for edit in edits} <= {None, START, FIRST}
        with as_request():
            self.check(values, started=skips_first or bool(values.keys() & {"settings", "round"}))


def _with_chat(snapshot: StateSnapshot) -> StateSnapshot:
    values = snapshot.values
    if not isinstance(values, dict) or not {"question", "board"} <= values.keys():
        return snapshot
    messages = chat_of(values, values.get("decision"))  # type: ignore[arg-type]  # it reads the keys that exist
    return snapshot._replace(values={**values, "messages": messages})


@contextmanager
def as_request() -> Iterator[None]:
    """Turn a UsageError into a RequestError, which a server reports as the client's fault."""
    try:
        yield
    except UsageError as error:
        raise RequestError(str(error)) from error


class DiscussionGraph(StateGraph[AnyState, AnyState, AnyState, AnyState]):
    """A StateGraph that refuses invalid input before its thread changes, and clears a key if None is written to it."""

    def __init__(self, state: type[Untyped], check: Check, **schemas: Untyped) -> None:
        """Create the graph; `check` refuses an invalid state, `schemas` are LangGraph's own."""
        super().__init__(state, **schemas)
        self.check = check

    def compile(self, *args: Untyped, **options: Untyped) -> CompiledDiscussion:
        """Compile the graph as LangGraph does, with our own channels instead of its plain ones."""
        compiled = super().compile(*args, **options)
        channels = {
            key: RemovableValue(channel.typ, key) if type(channel) is LastValue else channel
            for key, channel in compiled.channels.items()
        }
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


def _empty_value(channel: AnyState) -> AnyState:
    if isinstance(channel, Board):
        return {OVERWRITE: []}
    if isinstance(channel, BinaryOperatorAggregate) and channel.is_available():
        return {OVERWRITE: channel.get()}  # its initial value
    return None
