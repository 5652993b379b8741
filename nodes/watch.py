"""Acts that are watched: what was made is looked at before it is published or acted on.

A watched act is two nodes. In the first the agent speaks, and its whole update is left pending in state. In the
second a `Watch` looks at the messages, and the update is published, or an intervention takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from langchain_core.runnables import RunnableLambda

from sottovoce.channels.message import Message
from sottovoce.nodes.act import Act, plain
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.state import JSON, Discussion, Update, reset
from sottovoce.registry import Registry

Next = Literal["publish", "again", "reset"]


@dataclass(frozen=True)
class Intervention:
    """What is done in the place of publishing; what was said is kept on the board, and heard by nobody."""

    what: Literal["again", "reset"]
    """The agent speaks again, or the discussion goes back to the last mark, in a new epoch."""
    why: str
    """For the record: it stands beside the message."""
    update: JSON = field(default_factory=dict)
    """Keys of the state besides, e.g. a counter."""


class Watch(Protocol):
    """Looks at what an agent is about to say."""

    def __call__(self, run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
        """None publishes the messages: the attempts of one act, and an answer turn after the last, if there was one."""
        ...


MONITORS: Registry[Watch] = Registry("monitor", "sottovoce.monitors")
"""Watches by name."""


def held_back(act: Act, name: str) -> Act:
    """The act whose update is left pending under the node's name."""

    async def speak(run: RunContext[Any], state: Discussion, agent: str) -> Update:
        return {"pending": {name: plain(await act(run, state, agent))}}

    return speak


def watching(contexts: Contexts[Any], watch: Watch, name: str) -> RunnableLambda[Discussion, Update]:
    """The node that looks at what is pending under a node's name."""

    def look(state: Discussion) -> Update:
        update = state["pending"][name]
        messages = [Message.from_dict(message) for message in update.get("board", [])]
        found = watch(contexts.of(state), state, messages) if messages else None
        if found is None:
            return {**update, "pending": {name: None}}
        note = f"withdrawn: {found.why}"
        kept = [replace(message, withdrawn=True, notes=(*message.notes, note)) for message in messages]
        return plain({**found.update, "board": kept, "pending": {name: {"next": found.what}}})

    return RunnableLambda(look, name=f"watch_{name}")


def next_of(name: str) -> Callable[[Discussion], Next]:
    """What follows a watch: its router reads it from the state."""

    def what_next(state: Discussion) -> Next:
        found: Next = state.get("pending", {}).get(name, {}).get("next", "publish")
        return found

    return what_next


def go_back(to: int = -1) -> RunnableLambda[Discussion, Update]:
    """The node that takes the discussion back to a mark: the last one, or 0 for the first."""

    def reset_to(state: Discussion) -> Update:
        return {**reset(state, to), "pending": dict.fromkeys(state.get("pending", {}))}

    return RunnableLambda(reset_to, name="reset")
