"""Approvals: a watch that asks a person before an agent's message takes effect.

The graph stops with the text and its consequence (`Interrupt.value`, plain JSON). Resume it with {"approve": true} or
an empty text; with {"approve": false}, which publishes nothing; or with another text, which then is the person's: the
act runs again with it, so that it is read like any reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sottovoce.channels.message import Message
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.human_input import HUMAN, ask_person, text_of
from sottovoce.nodes.monitor_node import Intervention, Watch
from sottovoce.nodes.state import JSON, Discussion, Update

Effect = Callable[[Update], str]
"""Returns the effect of an act's update in its world, a name in `Settings.effects`; empty without one."""
EXPECTED = '{"approve": true}, {"approve": false}, or another text in the place of this one'
PUBLISHED = "it is published, and others continue from it"


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
