"""Checks of a state, before a discussion continues from it and before an edit is stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, FailFast, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from sottovoce.channels.message import validated
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import MOST_STEPS
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.validation import first_wrong
from sottovoce.nodes.question import check_question
from sottovoce.nodes.state import Discussion

WHOLE = ("protocol", "model", "seed", "agents", "rounds", "steps", "utterances", "consensus")
"""Settings that routers read, or that show that all are there. Others may be newer than a resumed run."""

OPENED = ("question", "round", "turn", "epochs", "marks")
"""The keys that every discussion has after the node `opening`."""


@with_config(ConfigDict(extra="allow"))
class PendingUpdate(TypedDict, total=False):
    """The pending entry of a node: the update of a watched act, or the next step after a watch."""

    board: list[JSON]
    next: Literal["again", "reset", "nothing"]
    to: int
    """For a reset: the index of the mark."""
    written: dict[str, str]
    """For an edit: by act, the text that replaces the model's reply."""


def settings_of(state: Discussion, known: Collection[str]) -> JSON:
    """Return the settings in a state; `known` are the names of the scheme's settings.

    Raises:
        UsageError: there are no settings, they are not a JSON object, or one is missing (a default would replace it).
    """
    settings: Any = state.get("settings")  # Any: may be edited
    try:
        json.dumps(settings)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the state's settings are not JSON: {error}; write them as 'opening' did") from error
    if settings is None and "round" not in state:
        raise UsageError("this discussion was never opened; resume it from the step before 'opening'")
    if not isinstance(settings, dict):
        raise UsageError(
            f"the state's settings are {settings!r}; expected all of them by name, as 'opening' wrote them"
        )
    if missing := next((name for name in WHOLE if name in known and name not in settings), None):
        raise UsageError(f"the state's settings have no {missing!r}; write all settings, as 'opening' does")
    return settings


def check_types(state: Mapping[str, JSONValue], schema: type[JSONValue]) -> None:
    """Refuse values of a wrong type; `schema` is the scheme's own state type."""
    try:
        _adapter(schema).validate_python(dict(state), strict=True)  # type: ignore[arg-type]  # holds it for unhashable
    except ValidationError as error:
        raise UsageError(f"in the state, {first_wrong(error, 'it')}") from error


def check_state(state: Mapping[str, JSONValue], speakers: Collection[str]) -> None:
    """Refuse a state that nodes or routers cannot read; `speakers` are all agents that act or have a model."""
    for name in OPENED:
        if name not in state:
            raise UsageError(f"the state has no {name!r}, which 'opening' wrote; resume from an earlier step")
    check_question(state, None)  # type: ignore[arg-type]  # it reads what there is
    for name, least in (("round", -1), ("turn", 0)):
        if not least <= (number := state.get(name, least)) <= MOST_STEPS:
            raise UsageError(f"in the state, {name} is {number}; expected {least} to {MOST_STEPS:,}")
    for name, update in state.get("pending", {}).items():
        if update.get("next") == "reset" and "to" not in update:
            raise UsageError(f"in the state, pending.{name} has no 'to', the mark that a reset goes back to")
        for held in update.get("board", []):
            validated(held)
    for message in state.get("board", []):
        if message.agent not in speakers and message.source != "rule":
            raise UsageError(nearest("agent on the board:", message.agent, sorted(speakers)))
        if not message.epoch and message.round > max(state["round"], 0) and not state.get("epochs"):
            raise UsageError(f"on the board, {message.place} is later than the state, in round {state['round']}")


@cache
def _adapter(schema: type[Any]) -> TypeAdapter[Any]:
    """Return an adapter with only optional keys: most are added after the first node."""
    hints = {name: _fail_fast(hint) for name, hint in get_type_hints(schema, include_extras=True).items()}
    hints["pending"] = dict[str, PendingUpdate]
    return TypeAdapter(TypedDict(schema.__name__, hints, total=False))  # type: ignore[operator]  # made at run time


def _fail_fast(hint: Any) -> Any:  # Any: a type
    """Return the type with lists that fail at their first wrong item: each error takes about a kilobyte."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return Annotated[_fail_fast(inner), *marks]
    if get_origin(hint) is list:
        return Annotated[list[_fail_fast(get_args(hint)[0])], FailFast()]  # type: ignore[misc]  # made at run time
    return hint
