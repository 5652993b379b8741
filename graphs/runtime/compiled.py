"""A compiled graph that refuses, before its thread changes, inputs that LangGraph would accept and lose."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Any, Protocol, runtime_checkable

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, StateUpdate

from sottovoce.channels.input_channel import is_nested
from sottovoce.core.errors import RequestError, choose, nearest
from sottovoce.nodes.chat import chat_of


@runtime_checkable
class Speaking(Protocol):
    """A graph that lists the agents that may have messages on its board."""

    speakers: Callable[[], Collection[str]]


class CompiledDiscussion(CompiledStateGraph[Any, Any, Any, Any]):  # Any: here and below LangGraph's own
    """A compiled graph whose thread takes a new question only after the last discussion, and edits known keys only."""

    def stream(self, input: Any, config: RunnableConfig | None = None, **told: Any) -> Iterator[Any]:
        """Stream as LangGraph does.

        Raises:
            RequestError: a question was asked in the middle of a discussion.
        """
        if thread := self._asked(input, config):
            _check_over(self.get_state(thread))
        yield from super().stream(input, config, **told)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **told: Any) -> AsyncGenerator[Any]:
        """Stream as LangGraph does. Errors: see `stream`."""
        if thread := self._asked(input, config):
            _check_over(await self.aget_state(thread))
        stream: Any = super().astream(input, config, **told)  # Any: a generator, which a caller may close early
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state as LangGraph does, with the discussion so far as `messages`, which checkpoints lack."""
        return _as_chat(super().get_state(config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state as `get_state` does."""
        return _as_chat(await super().aget_state(config, subgraphs=subgraphs))

    def get_state_history(self, config: RunnableConfig, **told: Any) -> Iterator[StateSnapshot]:
        """Return the history as LangGraph does, each state as `get_state` returns it."""
        return map(_as_chat, super().get_state_history(config, **told))

    async def aget_state_history(self, config: RunnableConfig, **told: Any) -> AsyncGenerator[StateSnapshot]:
        """Yield the history as `get_state_history` does."""
        async for snapshot in super().aget_state_history(config, **told):
            yield _as_chat(snapshot)

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Update the state as LangGraph does, but refuse unknown keys, which LangGraph ignores.

        Raises:
            RequestError: a key is unknown, or a message is from an unknown agent.
        """
        self._check_edit(config, supersteps)
        return super().bulk_update_state(config, supersteps)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state as `bulk_update_state` does."""
        self._check_edit(config, supersteps)
        return await super().abulk_update_state(config, supersteps)

    def _asked(self, given: Any, config: RunnableConfig | None) -> RunnableConfig | None:  # Any: an input
        """Return the config of this graph's own thread if the input is a question for it, otherwise None."""
        if given is None or isinstance(given, Command) or not isinstance(self.checkpointer, BaseCheckpointSaver):
            return None
        told = merge_configs(self.config, config)
        return told if "thread_id" in told.get("configurable", {}) and not is_nested() else None

    def _check_edit(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> None:
        if config.get("configurable", {}).get("checkpoint_ns"):
            return  # a subgraph's state, which has other keys
        for update in chain.from_iterable(supersteps):
            for name in update.values if isinstance(update.values, Mapping) else ():
                if name not in self.builder.channels:
                    raise RequestError(nearest("key of the state:", name, sorted(self.builder.channels)))
            self._check_speakers(update.values)

    def _check_speakers(self, values: Any) -> None:
        """Refuse a message of an unknown agent; after the last node, no other node would check it."""
        board = values.get("board") if isinstance(values, Mapping) else None
        if not isinstance(self.builder, Speaking) or not isinstance(board, list):
            return
        speakers = self.builder.speakers()
        for message in board:
            told = message if isinstance(message, Mapping) else getattr(message, "__dict__", {})
            agent = told.get("agent")
            if isinstance(agent, str) and told.get("source") != "rule" and agent not in speakers:
                raise RequestError(choose("agent on the board:", agent, sorted(speakers)))


def _as_chat(stands: StateSnapshot) -> StateSnapshot:
    values = stands.values
    if not isinstance(values, dict) or not {"question", "board"} <= values.keys():
        return stands
    messages = chat_of(values, values.get("decision"))  # type: ignore[arg-type]  # it reads the keys that exist
    return stands._replace(values={**values, "messages": messages})


def _check_over(stands: StateSnapshot) -> None:
    """Refuse a question if an agent has spoken, even in an unfinished round, and there is no decision yet."""
    found = stands.values
    if (found.get("board") or found.get("pending")) and not found.get("decision"):
        raise RequestError(
            "this thread has a discussion that is not over; continue it (with None as the input), or ask the question "
            "in another thread"
        )
