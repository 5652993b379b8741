"""Edits of a thread in the middle of a step: nothing that stands beside the edited node is lost.

LangGraph's `update_state` begins a new step with the edited node alone (1.2): replies of agents that had finished in
the same step, people who were being asked, and other nodes that were to run next are dropped without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.constants import END
from langgraph.graph import START, StateGraph
from langgraph.types import Command, StateSnapshot, StateUpdate

from sottovoce.core.errors import RequestError, nearest
from sottovoce.core.text import counted, shortened

OWN = {START, END, "__input__", "__copy__"}
"""Names of LangGraph that are no nodes: an edit with one of them begins anew, clears, or copies."""
Supersteps = list[Sequence[StateUpdate]]


def with_siblings(
    graph: StateGraph[Any, Any, Any, Any], snapshot: StateSnapshot, supersteps: Sequence[Sequence[StateUpdate]]
) -> Supersteps:
    """Return the edits with updates that keep what stands beside the edited nodes in their step.

    Raises:
        RequestError: it cannot be kept; the message names the edit that works.
    """
    for edit in (edit for edits in supersteps for edit in edits):
        written_by(edit, snapshot)
        if edit.as_node not in [None, *OWN, *graph.nodes]:
            raise RequestError(f"as_node: {nearest('node', edit.as_node, graph.nodes)}")
    first, *later = supersteps or [()]
    named = [edit.as_node for edit in first]
    finished = {task.name: task.result for task in snapshot.tasks if task.result is not None}
    waiting = [task.name for task in snapshot.tasks if task.result is None]
    if not first or not snapshot.tasks or OWN & {*named}:
        return [*supersteps]
    if {*named} & {*finished, *waiting}:  # the node's own update, in place of the one that it made or was to make
        if left := [name for name in waiting if name not in named]:
            raise RequestError(
                f"an edit as {_listed(named)} would drop {_listed(left)}, of the same step, which has not replied; "
                "resume the thread first and edit then, or edit as all of them in one call of bulk_update_state"
            )
        return [[*first, *(StateUpdate(made, name) for name, made in finished.items() if name not in named)], *later]
    if finished and waiting:
        if None in named:
            raise RequestError(
                f"{_listed(finished)} replied in this step and {_listed(waiting)} did not; name the edited node by "
                "as_node"
            )
        return [[StateUpdate(None, END)], [*first, *_added(graph, named, waiting)], *later]
    return [[*first, *_added(graph, named, waiting or [*finished])], *later]


def written_by(edit: StateUpdate, snapshot: StateSnapshot) -> list[tuple[Any, Any]]:  # Any: as somebody wrote them
    """Return the keys and values that an edit writes; one that clears a step writes what its nodes had finished.

    Raises:
        RequestError: it is no dict.
    """
    if edit.as_node == END and not edit.values:
        return [pair for task in snapshot.tasks if task.result for pair in task.result.items()]
    values: Any = edit.values  # Any: LangGraph's type is only a wish
    values = values.update if isinstance(values, Command) else values
    if values is not None and not isinstance(values, Mapping):
        raise RequestError(f"the edit is {shortened(repr(values))}; expected a dict, like {{'round': 0}}")
    return [*(values or {}).items()]


def _added(
    graph: StateGraph[Any, Any, Any, Any], named: Sequence[str | None], following: Sequence[str]
) -> list[StateUpdate]:
    """Return empty updates as the nodes whose successors would be left out, if the edit runs others of the same step.

    An edit that leads elsewhere altogether is meant to.
    """
    reached = {name for node in named for name in _successors(graph, node)}
    if None in named or not reached & {*following}:
        return []
    updates = []
    for left in (name for name in following if name not in reached):
        before = [node for node in graph.nodes if left in _successors(graph, node)]
        if len(before) != 1:
            raise RequestError(
                f"an edit as {_listed(named)} would leave out {left!r}, which runs in the same step; edit as one of "
                f"{counted(len(before), 'node')} before it: {_listed(before)}"
            )
        updates.append(StateUpdate({}, before[0]))
    return updates


def _successors(graph: StateGraph[Any, Any, Any, Any], node: str | None) -> set[str]:
    """Return the nodes that may run after a node."""
    routers = graph.branches.get(node, {}).values() if node is not None else ()
    return {end for start, end in graph.edges if start == node} | {
        end for router in routers for end in (router.ends or {}).values()
    }


def _listed(names: Iterable[str | None]) -> str:
    return ", ".join(repr(name) for name in names)
