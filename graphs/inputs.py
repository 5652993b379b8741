"""Checks of a graph's inputs, before a thread changes: the question, settings in the input, edits of the thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.config import get_config
from langgraph.constants import END
from langgraph.graph import START, StateGraph
from langgraph.types import Command, StateSnapshot, StateUpdate
from pydantic import BaseModel

from sottovoce.channels.message import EXCHANGED, validated
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import RequestError, nearest
from sottovoce.core.text import shortened

OWN = {START, END, "__input__", "__copy__"}
"""Names of LangGraph that are no nodes: an edit with one of them begins anew, clears, or copies."""


def is_nested() -> bool:
    """Return True if the graph runs in a node of another graph; that graph's state may have other keys."""
    try:
        return "langgraph_node" in (get_config().get("metadata") or {})
    except RuntimeError:  # outside any graph
        return False


def filled(value: AnyState, keys: Collection[str]) -> dict[str, AnyState]:
    """Return an input with all `keys`. Missing values are None, to clear the values of an earlier question.

    A subgraph gets the whole state of its parent: unknown keys are dropped there, and refused everywhere else. Chat
    front ends send `messages`; the last human one is the question.

    Raises:
        RequestError: it is not a dict, or has an unknown key or no human message.
    """
    values = _by_key(value)
    if "messages" in values and values.get("question") is None:
        values = _with_question(values)
    unknown = [key for key in values if key not in keys]
    if unknown and not is_nested():
        raise RequestError(nearest("key in the input:", unknown[0], keys))
    return {key: values.get(key) for key in keys}


def _by_key(value: AnyState) -> Mapping[str, AnyState]:
    """Return an input as a mapping. A parent's state may be a pydantic model or a dataclass."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise RequestError(f"the input is {value!r}; expected a dict, like {{'question': 'What is 1 + 1?'}}")


def _with_question(values: Mapping[str, AnyState]) -> Mapping[str, AnyState]:
    messages = values["messages"]
    try:
        read: Sequence[BaseMessage] = convert_to_messages(
            messages if isinstance(messages, list | tuple) else [messages]
        )
    except (ValueError, TypeError, NotImplementedError, KeyError) as error:
        raise RequestError(f"messages are {messages!r}; expected LangChain's, or their JSON") from error
    questions = [message for message in read if message.type == "human"]
    if questions:
        rest = {key: value for key, value in values.items() if key != "messages"}
        return {**rest, "question": str(questions[-1].text)}
    if is_nested():
        return values
    raise RequestError(f"messages are {messages!r}; expected a human message with the question")


def check_settings(
    input: Any,  # Any: plain or not, as the context
    configurable: Collection[str],
    context: Any,
    names: Collection[str],
    keys: Collection[str],
) -> None:
    """Refuse settings in the input, and in `configurable` unless the context has them, as on a server.

    `names` are names of settings, and `keys` are keys of the state.
    """
    misplaced = {name for name in input if name in names} - {*keys} if isinstance(input, Mapping) else set()
    for name in sorted(misplaced):
        place = f"context={{{name!r}: {shortened(repr(input[name]))}}}"
        raise RequestError(f"the input has {name!r}, which is a setting: settings go beside the input, as {place}")
    known = context if isinstance(context, Mapping) else getattr(context, "model_fields_set", ())
    for name in configurable:
        if name in names and name not in known:
            raise RequestError(
                f"configurable has the setting {name!r}, which is not read there; give settings as "
                f"context={{{name!r}: ...}}"
            )


def written_by(edit: StateUpdate) -> Mapping[Any, Any]:  # Any: as somebody wrote them
    """Return the values that an edit writes, by key.

    Raises:
        RequestError: it is no dict.
    """
    values: Any = edit.values  # Any: LangGraph's type is only a wish
    values = values.update if isinstance(values, Command) else values
    if values is not None and not isinstance(values, Mapping):
        raise RequestError(f"the edit is {shortened(repr(values))}; expected a dict, like {{'round': 0}}")
    return values or {}


def marked(edit: StateUpdate, snapshot: StateSnapshot) -> StateUpdate:
    """Return an edit with a note on messages with foreign tensors. The board itself marks changed texts."""
    values: Any = edit.values
    written = values.get("board") if isinstance(values, Mapping) else None
    if not isinstance(written, list):
        return edit
    known = {message.payload.sha256 for message in snapshot.values.get("board", []) if message.payload}
    board = []
    for message in map(validated, written):
        changed = message.latent is not None and message.latent.sha256 not in known
        notes = dict.fromkeys((*message.notes, EXCHANGED) if changed else message.notes)
        board.append(replace(message, notes=tuple(notes)).to_dict())
    return edit._replace(values={**values, "board": board})


def check_siblings(
    graph: StateGraph[Any, Any, Any, Any], snapshot: StateSnapshot, edits: Sequence[StateUpdate]
) -> None:
    """Refuse edits that would drop other nodes of the same step: LangGraph's new step (1.2) begins without them.

    Raises:
        RequestError: the message names the edit that works.
    """
    named = [edit.as_node for edit in edits]
    finished = [task.name for task in snapshot.tasks if task.result is not None]
    waiting = [task.name for task in snapshot.tasks if task.result is None]
    left = [name for name in (*finished, *waiting) if name not in named]
    if not left or OWN & {*named}:
        return
    if finished and waiting:
        raise RequestError(
            f"an edit would drop {_listed(left)}: {_listed(finished)} replied in this step and {_listed(waiting)} did "
            "not; resume the thread first and edit then, or edit as all of them in one call of bulk_update_state"
        )
    following = {name for node in named for name in _successors(graph, node)}
    is_in_step = len(left) < len(finished) + len(waiting)
    dropped = [name for name in left if name not in following]
    if dropped and (is_in_step or len(dropped) < len(left)):  # an edit that leads elsewhere altogether is meant to
        way = "as all of them" if is_in_step else "as the nodes before all of them"
        raise RequestError(
            f"an edit as {_listed(named)} would drop {_listed(dropped)}, of the same step; edit {way} in one call of "
            "bulk_update_state"
        )


def _successors(graph: StateGraph[Any, Any, Any, Any], node: str | None) -> set[str]:
    """Return the nodes that may run after a node."""
    routers = graph.branches.get(node, {}).values() if node is not None else ()
    return {end for start, end in graph.edges if start == node} | {
        end for router in routers for end in (router.ends or {}).values()
    }


def _listed(names: Sequence[str | None]) -> str:
    return ", ".join(map(repr, names))
