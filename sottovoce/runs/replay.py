"""Counterfactual replay: a watched discussion, continued from before an intervention with it and without it.

Seeds depend on a message's place, so each branch is reproducible: the branch with the intervention equals the original
discussion token by token, and so does the other branch if nobody intervened. In the branch without it, nobody
intervenes from that checkpoint on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from sottovoce.channels.message import Message
from sottovoce.core.any_types import AnyState
from sottovoce.core.date import started_at
from sottovoce.core.errors import UsageError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.state import Decision, Intervened
from sottovoce.nodes.watch import Intervention

Graph = CompiledStateGraph[AnyState, AnyState, AnyState, AnyState]
THREAD: RunnableConfig = {"configurable": {"thread_id": "replay"}}


@dataclass(frozen=True)
class Branch:
    """One continuation of a discussion."""

    messages: list[Message]
    interventions: list[Intervened]
    decision: Decision


@dataclass(frozen=True)
class Branches:
    """A discussion continued with an intervention and without it."""

    at: Intervened | None
    """The intervention; None if nobody intervened: then both branches equal the original discussion."""
    original: Branch
    """The original discussion, without a break."""
    with_it: Branch
    without: Branch


def never(run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
    """Let every message pass: a watch that never intervenes."""
    return None


def branches(watched: Graph, free: Graph, config: RunnableConfig = THREAD, number: int = 0) -> Branches:
    """Continue a finished thread from before an intervention, in two branches.

    Args:
        watched: The graph that ran the discussion.
        free: The same scheme and settings watched by `never`, compiled with the same saver.
        config: The config that names the thread.
        number: Index of the intervention, from 0.

    Raises:
        UsageError: there were interventions, but not this many.
    """
    original = _branch(watched, config)
    *_, first = watched.get_state_history(config)
    if 0 < len(original.interventions) <= number:
        raise UsageError(
            f"number is {number}, and the discussion has {len(original.interventions)} interventions, counted from 0; "
            "choose another"
        )
    with started_at(datetime.fromisoformat(first.created_at or "").astimezone()):
        if not original.interventions:
            again = _from(free, _before(watched, config, 0))
            return Branches(None, original, again, again)
        checkpoint = _before(watched, config, number)
        with_it, without = (_from(graph, checkpoint) for graph in (watched, free))
    return Branches(original.interventions[number], original, with_it, without)


def _before(graph: Graph, config: RunnableConfig, number: int) -> RunnableConfig:
    """Return the last checkpoint before intervention `number`, at its watch; without it, the first checkpoint.

    Interventions made in parallel share one checkpoint.
    """
    at_watch = [
        each
        for each in graph.get_state_history(config)  # the newest first
        if any(name.startswith("watch_") for name in each.next) and len(each.values.get("interventions", [])) <= number
    ]
    made = len(graph.get_state(config).values.get("interventions", [])) > number
    return (at_watch[0] if made else at_watch[-1]).config


def _from(graph: Graph, checkpoint: RunnableConfig) -> Branch:
    graph.invoke(None, checkpoint, output_keys=[])
    return _branch(graph, THREAD | {"configurable": {"thread_id": checkpoint["configurable"]["thread_id"]}})


def _branch(graph: Graph, config: RunnableConfig) -> Branch:
    values = graph.get_state(config).values
    messages = [each if isinstance(each, Message) else Message.from_dict(each) for each in values["board"]]
    return Branch(messages, values.get("interventions", []), values["decision"])
