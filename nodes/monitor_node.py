"""Watched acts, whose updates are checked before they are published or acted on (arXiv 2502.05986).

A watched act is two nodes. In the first the agent speaks, and its whole update stays pending in state. In the
second a `Watch` checks the messages, and the update is published or replaced by an intervention. Messages that are
written in parallel and acted on together may be checked together, in one node before that step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from langchain_core.runnables import RunnableConfig, RunnableLambda

from sottovoce.channels.message import Message, latest
from sottovoce.core.registry import Registry
from sottovoce.nodes.act import Act, plain
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.human_input import HUMAN, check_saver
from sottovoce.nodes.redraw import AGAIN, warmed
from sottovoce.nodes.state import JSON, NOTE, Discussion, Intervened, Update, attempt_of, moment, reset

Kind = Literal["again", "reset", "rollback", "augment", "mute", "human", "edit", "reject"]
Next = Literal["publish", "again", "reset", "nothing"]
NEXT: dict[str, Next] = {"reset": "reset", "rollback": "reset", "mute": "publish", "reject": "publish"}
"""The next step after an intervention; after all others the act runs again."""
MONITOR = "monitor"
"""The author of a note is "monitor of AGENT", since several agents may be stopped in parallel."""


@dataclass(frozen=True)
class Intervention:
    """An intervention instead of publishing; withdrawn messages stay on the board, but nobody hears them."""

    kind: Kind
    """again: ask the agent again. reset: return to the last action that cannot be undone, or in a scheme without any
    to the beginning of the round, in a new epoch. rollback: return some rounds further. augment: add a note for all
    agents, and ask the agent again. mute: publish an empty message. human: a person plays the agent from then on, and
    is asked through LangGraph's `interrupt`. edit, reject: a person who approves wrote another text, with which the
    act runs again; or rejected the message, with the same effect as mute."""
    why: str
    """The reason, which is recorded with the message."""
    update: JSON = field(default_factory=dict)
    """Updates of other state keys, e.g. a counter."""
    score: float | None = None
    """A monitor's score."""
    rounds: int = 1
    """For a rollback: rounds to take back besides the current one; actions that cannot be undone stay."""
    note: str = ""
    """For an augmentation: the note for all agents."""
    replacements: Mapping[str, str] = field(default_factory=dict)
    """For an edit: by act, the text that replaces the model's reply."""


class Watch(Protocol):
    """A check of messages before they are published."""

    def __call__(self, run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
        """Return an intervention, or None to publish the messages.

        They are the attempts of one act, with an answer turn if there was one; or those of all acts checked together.
        """
        ...


MONITORS: Registry[Watch] = Registry("monitor", "sottovoce.monitors")
"""Watches by name."""
Silent = Callable[[RunContext[Any], Any, str], Update]  # Any: settings and state of any scheme
"""Takes the run, the state and a muted agent, and returns the update of a world that its act would have changed."""


def check_watch(watch: Watch, run: RunContext[Any], config: RunnableConfig) -> list[str]:
    """Refuse, before any model runs, a watch whose interventions would fail, and return notes on it.

    Raises:
        UsageError: a human may take over an agent, but the graph has no checkpointer; or the watch has a method
            `begin(run)`, which returns such notes, and raises the error.
    """
    if run.settings.intervention == HUMAN:
        check_saver("a person may take over an agent", config)
    begin: Callable[[RunContext[Any]], list[str]] = getattr(watch, "begin", lambda run: [])
    return begin(run)


def restricted(watch: Watch) -> Watch:
    """Return the watch, restricted to rounds from `watched_from` on, and without messages of people."""

    def look(run: RunContext[Any], state: Any, messages: Sequence[Message]) -> Intervention | None:
        early = state["round"] < run.settings.watched_from
        if early or all(message.source == HUMAN for message in messages):
            return None
        return watch(run, state, messages)

    return look


def deferred(act: Act, name: str) -> Act:
    """Return the act, changed to leave its update pending under the node's name."""

    def deferred_act(run: RunContext[Any], state: Discussion, agent: str) -> Update:
        return {"pending": {name: plain(act(run, state, agent))}}

    return deferred_act


def monitor_node(
    contexts: Contexts[Any], watch: Watch, name: str, silent: Silent | None = None, back_to: int = -1
) -> RunnableLambda[Discussion, Update]:
    """Return the node that checks the pending update of a node."""

    def look(state: Discussion) -> Update:
        run, update = contexts.of(state), state["pending"][name]
        messages = [Message.from_dict(message) for message in update.get("board", [])]
        if any(message.epoch < len(state["epochs"]) for message in messages):
            return _too_late(name, update)
        intervention = watch(run, state, messages) if messages else None
        if intervention is None:
            return {**update, "pending": {name: None}}
        agent = messages[-1].agent
        withdrawn = [
            replace(message, withdrawn=True, notes=(*message.notes, f"withdrawn: {intervention.why}"))
            for message in messages
        ]
        done = _intervened(run, state, intervention, messages) | {
            "pending": {name: _onwards(state, intervention, back_to)}
        }
        if NEXT.get(intervention.kind) != "publish":
            return plain({**done, "board": [*withdrawn, *_note(run, state, intervention, agent)]})
        instead = update if silent is None else silent(run, state, agent)
        return plain({**instead, **done, "board": [*withdrawn, *map(_nothing, latest(messages))]})

    return RunnableLambda(look, name=f"watch_{name}")


def joint_monitor_node(
    contexts: Contexts[Any], watch: Watch, name: str, together: Callable[[Any], list[Message]], back_to: int = -1
) -> RunnableLambda[Discussion, Update]:
    """Return the node that checks the messages of several agents together, before the step `name` acts on them.

    The messages are already on the board. They can only pass, or be withdrawn by a reset or a rollback: any other
    intervention becomes a reset.
    """

    def look(state: Discussion) -> Update:
        run, messages = contexts.of(state), together(state)
        intervention = watch(run, state, messages) if messages else None
        if intervention is None:
            return {"pending": {name: None}}
        back = intervention if NEXT.get(intervention.kind) == "reset" else replace(intervention, kind="reset")
        return _intervened(run, state, back, messages) | {"pending": {name: _onwards(state, back, back_to)}}

    return RunnableLambda(look, name=f"watch_{name}")


def next_of(name: str) -> Callable[[Discussion], Next]:
    """Return the router after a watch, which reads the next step from the state."""

    def what_next(state: Discussion) -> Next:
        found: Next = state.get("pending", {}).get(name, {}).get("next", "publish")
        return found

    return what_next


def reset_node() -> RunnableLambda[Discussion, Update]:
    """Return the node that resets the discussion to the earliest mark of all pending interventions."""

    def reset_to(state: Discussion) -> Update:
        pending = state.get("pending", {})
        marks = {name: update["to"] for name, update in pending.items() if update.get("next") == "reset"}
        return {**reset(state, min(marks.values())), "pending": dict.fromkeys(marks)}

    return RunnableLambda(reset_to, name="reset")


def _too_late(name: str, update: Update) -> Update:
    """Return the update for a reply that came after another agent's reset: on the board, without a next step."""
    return {"board": update["board"], "pending": {name: {"next": "nothing"}}}


def _onwards(state: Discussion, intervention: Intervention, back_to: int) -> JSON | None:
    """Return the pending entry: the next step, and for a reset the index of the mark."""
    what_next = NEXT.get(intervention.kind, "again")
    if what_next == "publish":
        return None
    if what_next == "again":
        return {"next": what_next, **({"written": {**intervention.replacements}} if intervention.replacements else {})}
    marks = len(state["marks"])
    to = back_to % marks if intervention.kind == "reset" else max(marks - 1 - intervention.rounds, 0)
    return {"next": what_next, "to": to}


def _intervened(
    run: RunContext[Any], state: Discussion, intervention: Intervention, messages: Sequence[Message]
) -> Update:
    """Return the record of an intervention in state, which no reset removes."""
    last = messages[-1]
    agents = list(dict.fromkeys(message.agent for message in messages))
    epoch, round, turn = moment(state)
    entry = Intervened(
        agent=", ".join(agents),
        role=run.settings.role_of(last.agent),
        act=last.act,
        epoch=epoch,
        round=round,
        turn=turn,
        attempt=last.attempt,
        score=intervention.score,
        what=intervention.kind,
        why=intervention.why,
    )
    if intervention.kind in AGAIN and (warm := warmed(run, last.agent)) is not None:
        entry["temperature"] = warm
    return {**intervention.update, "interventions": [entry]}


def _note(run: RunContext[Any], state: Discussion, intervention: Intervention, agent: str) -> list[Message]:
    if intervention.kind != "augment":
        return []
    who, (epoch, round, turn) = f"{MONITOR} of {agent}", moment(state)
    at = attempt_of(state, who, NOTE)
    return [
        Message(who, round, NOTE, intervention.note, at, epoch=epoch, turn=turn, order=run.order(who), source="rule")
    ]


def _nothing(last: Message) -> Message:
    """Return the empty message of a muted agent: it is read as an abstention."""
    place = {name: getattr(last, name) for name in ("agent", "round", "act", "epoch", "turn", "order")}
    public = None if last.public is None else ""
    return Message(**place, text="", attempt=last.attempt + 1, public=public, source="rule", notes=("muted",))
