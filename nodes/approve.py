"""Approvals: a watch whose verdict is a person's, asked before what an agent said takes effect.

The graph stops with the text and what would follow (`Interrupt.value`, plain JSON). It goes on with {"approve": true}
or an empty text; with {"approve": false}, and nothing is said in its place; or with another text, which is a person's
from then on: the act is done again with it, so that it is read as any reply is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sottovoce.channels.message import Message
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.people import HUMAN, asked, text_of
from sottovoce.nodes.state import JSON, Discussion, Update
from sottovoce.nodes.watch import Intervention, Watch

Deed = Callable[[Update], str]
"""What an act's update does in its world, by the names of `Settings.deeds`; empty where it is none of them."""
EXPECTED = '{"approve": true}, {"approve": false}, or another text in the place of this one'
PUBLISHED = "it is published, and others go on from it"


def no_deed(update: Update) -> str:
    """An act that says something, and does no more."""
    return ""


class Approval:
    """Looks at what is pending under a node's name: first by another watch, if there is one; then a person does."""

    def __init__(self, first: Watch | None, name: str, deed: Deed = no_deed) -> None:
        """`deed` tells what the node's updates do."""
        self._first, self._name, self._deed = first, name, deed

    def __call__(self, run: RunContext[Any], state: Discussion, messages: Sequence[Message]) -> Intervention | None:
        """What another watch does; else what the person wants, where the settings name what was said or done."""
        if self._first is not None and (found := self._first(run, state, messages)):
            return found
        deed = self._deed(state["pending"][self._name])
        named = [message for message in messages if self._is_named(run, message, deed)]
        if not named:
            return None
        # Of a reply that could not be read the answer that followed it is shown, too.
        until = messages.index(named[-1])
        shown = messages[until - 1 : until + 1] if named[-1].asked == "answer" else named[-1:]
        return _verdict(run, shown, deed)

    def _is_named(self, run: RunContext[Any], message: Message, deed: str) -> bool:
        """A person's own words need no approval."""
        names = {message.act, message.agent, run.settings.role_of(message.agent), deed}
        return message.source != HUMAN and not names.isdisjoint(run.settings.approve)


def _verdict(run: RunContext[Any], messages: Sequence[Message], deed: str) -> Intervention | None:
    last = messages[-1]
    reply = asked(_value(run, messages, deed), _read, EXPECTED)
    if isinstance(reply, bool):
        return None if reply else Intervention("reject", "a person rejected it")
    return Intervention("edit", "a person wrote it anew", written={last.act: reply})


def _value(run: RunContext[Any], messages: Sequence[Message], deed: str) -> JSON:
    """What the person is told."""
    last, text = messages[-1], "\n".join(each.whole for each in messages)
    about: JSON = {"agent": last.agent, "act": last.act, "approve": deed or last.act, "notes": list(last.notes)}
    return {**about, "text": text, "then": run.settings.deeds.get(deed, PUBLISHED)}


def _read(reply: Any) -> bool | str | None:  # Any: what somebody resumed the graph with
    """True approves, False rejects, a text takes the place of what was said; None is none of them."""
    if isinstance(reply, dict) and isinstance(reply.get("approve"), bool):
        return bool(reply["approve"])
    text = text_of(reply)
    return reply if isinstance(reply, bool) else True if text == "" else text
