"""Watched acts, whose updates are checked before they are published or acted on (arXiv 2502.05986).

A watched act is two nodes. In the first the agent speaks, and its whole update stays pending in state. In the
second a `Watch` checks the messages, and the update is published or replaced by an intervention. Messages that are
written in parallel and acted on together may be checked together, in one node before that step.

A person who approves is a watch too. The graph stops with the text and its consequence (`Interrupt.value`, plain JSON).
Resume it with {"approve": true} or an empty text; with {"approve": false}, which publishes nothing; or with another
text, which then is the person's: the act runs again with it, so that it is read like any reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableLambda

from sottovoce.channels.message import Message, latest
from sottovoce.nodes.act import Act, plain
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.contexts import Contexts
from sottovoce.nodes.human_input import HUMAN, ask_person, text_of
from sottovoce.nodes.state import JSON, NOTE, Discussion, Intervened, Update, attempt_of, moment, reset
from sottovoce.nodes.watch import AGAIN, NEXT, Intervention, Next, Silent, Watch, warmed

MONITOR = "monitor"
"""The author of a note is "monitor of AGENT", since several agents may be stopped in parallel."""
Effect = Callable[[Update], str]
"""Returns the effect of an act's update in its world, a name in `Settings.effects`; empty without one."""
EXPECTED = '{"approve": true}, {"approve": false}, or another text in the place of this one'
PUBLISHED = "it is published, and others continue from it"


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


def no_effect(update: Update) -> str:
    """Return no effect, for acts that only send a message."""
    return ""


class Approval:
    """A watch on a node's pending update: first another watch checks it, if there is one, then a person."""

    def __init__(self, first: Watch | None, name: str, effect: Effect = no_effect) -> None:
        """Accept a first watch, the node's name, and `effect`, which returns the effect of the node's updates."""
        self._first, self._name, self._effect = first, name, effect

    def __call__(self, run: RunContext[Any], state: Discussion, messages: Sequence[Message]) -> Intervention | None:
        """Return the first watch's intervention; else the person's, if the settings name the act, agent or effect."""
        if self._first is not None and (intervention := self._first(run, state, messages)):
            return intervention
        effect = self._effect(state["pending"][self._name])
        named = [message for message in messages if self._is_named(run, message, effect)]
        if not named:
            return None
        # With a reply that could not be read, its answer turn is shown too.
        until = messages.index(named[-1])
        shown = messages[until - 1 : until + 1] if named[-1].asked == "answer" else named[-1:]
        return _verdict(run, shown, effect)

    def _is_named(self, run: RunContext[Any], message: Message, effect: str) -> bool:
        """Return True if a message needs approval; a person's own message does not."""
        names = {message.act, message.agent, run.settings.role_of(message.agent), effect}
        return message.source != HUMAN and not names.isdisjoint(run.settings.approve)


def _verdict(run: RunContext[Any], messages: Sequence[Message], effect: str) -> Intervention | None:
    last = messages[-1]
    reply = ask_person(_value(run, messages, effect), _read, EXPECTED)
    if isinstance(reply, bool):
        return None if reply else Intervention("reject", "a person rejected it")
    return Intervention("edit", "a person rewrote it", replacements={last.act: reply})


def _value(run: RunContext[Any], messages: Sequence[Message], effect: str) -> JSON:
    """Return the value that the person is shown."""
    last, text = messages[-1], "\n".join(each.full_text for each in messages)
    about: JSON = {"agent": last.agent, "act": last.act, "approve": effect or last.act, "notes": list(last.notes)}
    return {**about, "text": text, "then": run.settings.effects.get(effect, PUBLISHED)}


def _read(reply: Any) -> bool | str | None:  # Any: what somebody resumed the graph with
    """Return True to approve, False to reject, a text to replace the message, or None for an invalid reply."""
    if isinstance(reply, dict) and isinstance(reply.get("approve"), bool):
        return bool(reply["approve"])
    text = text_of(reply)
    return reply if isinstance(reply, bool) else True if text == "" else text
