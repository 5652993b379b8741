"""Watched acts: their updates are checked before they are published or acted on (arXiv 2502.05986).

A watched act is two nodes. In the first the agent speaks, and its whole update stays pending in state. In the
second a `Watch` checks the messages, and the update is published or replaced by an intervention. Messages that are
written in parallel and acted on together may be checked together, in one node before that step.

A person who approves is a watch too: the graph stops with the text and its consequence (`Interrupt.value`, plain JSON),
and resumes with one of `EXPECTED`. If the person writes a new text, the act runs again with it, and the text is read
like a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sottovoce.agents.ask import HUMAN
from sottovoce.agents.person import ask_person, text_of
from sottovoce.channels.message import Message, latest
from sottovoce.core.any_types import JSON, AnyState
from sottovoce.nodes.act import Act, Step, performed, plain
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.state import NOTE, Discussion, Intervened, Update, moment, reset
from sottovoce.nodes.watch import AGAIN, NEXT, Intervention, Silent, Watch, warmed

Effect = Callable[[Update], str]
"""Returns the effect of an act's update in its world, a name in `Settings.effects`, or an empty text."""
EXPECTED = '{"approve": true}, {"approve": false}, or another text in the place of this one'
PUBLISHED = "it is published, and others continue from it"


def deferred(act: Act, name: str) -> Act:
    """Return the act, changed to leave its update pending under the node's name."""

    async def deferred_act(run: RunContext[Any], state: Discussion, agent: Agent) -> Update:
        return {"pending": {name: plain(await performed(act, run, state, agent, name))}}

    return deferred_act


def checked(watch: Watch, name: str, silent: Silent | None = None, back_to: int = -1) -> Step:
    """Return the step that checks the pending update of a node."""

    def check(run: RunContext[Any], state: Discussion) -> Update:
        update = state["pending"].get(name) or {}  # none if an edit wrote to the board instead
        messages = [Message.from_dict(message) for message in update.get("board", [])]
        if any(message.epoch < len(state["epochs"]) for message in messages):
            # It came after another agent's reset: on the board, without a next step.
            return {"board": update["board"], "pending": {name: {"next": "nothing"}}}
        intervention = watch(run, state, messages) if messages else None
        if intervention is None:
            return {**update, "pending": {name: None}}
        agent, note = messages[-1].agent, f"withdrawn: {intervention.why}"
        withdrawn = [replace(message, withdrawn=True, notes=(*message.notes, note)) for message in messages]
        done = _intervened(run, state, intervention, messages, name, back_to)
        if NEXT.get(intervention.kind) == "publish":
            instead = update if silent is None else silent(run, state, agent)
            return {**instead, **done, "board": [*withdrawn, *map(_nothing, latest(messages))]}
        if intervention.kind == "augment":  # agents may be stopped in parallel, so each note has its own author
            withdrawn.append(run.message(state, f"monitor of {agent}", NOTE, intervention.note))
        return {**done, "board": withdrawn}

    return check


def checked_together(watch: Watch, name: str, together: Callable[[Any], list[Message]], back_to: int = -1) -> Step:
    """Return the step that checks the messages of several agents together, before the step `name` acts on them.

    The messages are already on the board. They can only pass, or be withdrawn by a reset or a rollback: any other
    intervention becomes a reset.
    """

    def check(run: RunContext[Any], state: Discussion) -> Update:
        messages = together(state)
        intervention = watch(run, state, messages) if messages else None
        if intervention is None:
            return {"pending": {name: None}}
        back = intervention if NEXT.get(intervention.kind) == "reset" else replace(intervention, kind="reset")
        return _intervened(run, state, back, messages, name, back_to)

    return check


def reset_pending(run: RunContext[Any], state: Discussion) -> Update:
    """Reset the discussion to the earliest mark of all pending interventions."""
    pending = state.get("pending", {})
    marks = {name: update["to"] for name, update in pending.items() if update.get("next") == "reset"}
    return {**reset(state, min(marks.values())), "pending": dict.fromkeys(marks)}


def _intervened(
    run: RunContext[Any],
    state: Discussion,
    intervention: Intervention,
    messages: Sequence[Message],
    name: str,
    back_to: int,
) -> Update:
    """Return the record of an intervention, which stays in state after a reset, and the node's next step."""
    last, (epoch, round, turn) = messages[-1], moment(state)
    entry = Intervened(
        agent=", ".join(dict.fromkeys(message.agent for message in messages)),
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
    pending: JSON = {"next": NEXT.get(intervention.kind, "again")}
    if pending["next"] == "reset":  # and the index of the mark
        marks = len(state["marks"])
        pending["to"] = back_to % marks if intervention.kind == "reset" else max(marks - 1 - intervention.rounds, 0)
    elif intervention.replacements:
        pending["written"] = dict(intervention.replacements)
    done = {**intervention.update, "interventions": [entry]}
    return {**done, "pending": {name: None if pending["next"] == "publish" else pending}}


def _nothing(last: Message) -> Message:
    """Return the empty message of a muted agent: it is read as an abstention."""
    place = {name: getattr(last, name) for name in ("agent", "round", "act", "epoch", "turn", "order")}
    public = None if last.public is None else ""
    return Message(**place, text="", attempt=last.attempt + 1, public=public, source="rule", notes=("muted",))


def approval(first: Watch | None, name: str, effect_of: Effect) -> Watch:
    """Return a watch on a node's pending update: first another watch checks it, if there is one, then a person.

    The person is asked if the settings name the act, the agent, its role or the effect of the update.
    """

    def watch(run: RunContext[Any], state: Discussion, messages: Sequence[Message]) -> Intervention | None:
        if first is not None and (intervention := first(run, state, messages)):
            return intervention
        effect = effect_of(state["pending"][name])

        def is_named(message: Message) -> bool:
            names = {message.act, message.agent, run.settings.role_of(message.agent), effect}
            return message.source != HUMAN and not names.isdisjoint(run.settings.approve)

        named = [message for message in messages if is_named(message)]
        if not named:
            return None
        # With a reply that could not be read, its answer turn is shown too.
        last, until = named[-1], messages.index(named[-1])
        shown = messages[until - 1 : until + 1] if last.asked == "answer" else [last]
        value: JSON = {"agent": last.agent, "act": last.act, "approve": effect or last.act, "notes": list(last.notes)}
        text, then = "\n".join(each.full_text for each in shown), run.settings.effects.get(effect, PUBLISHED)
        reply = ask_person({**value, "text": text, "then": then}, _read, EXPECTED)
        if isinstance(reply, bool):
            return None if reply else Intervention("reject", "a person rejected it")
        return Intervention("edit", "a person rewrote it", replacements={last.act: reply})

    return watch


def _read(reply: AnyState) -> bool | str | None:
    """Return True to approve, False to reject, a text to replace the message, or None for an invalid reply."""
    if isinstance(reply, dict) and isinstance(reply.get("approve"), bool):
        return bool(reply["approve"])
    text = text_of(reply)
    return reply if isinstance(reply, bool) else True if text == "" else text
