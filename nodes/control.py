"""What an agent hears of the others' messages, or what stands in their places as a control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sottovoce.channels.message import Message
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.state import Discussion


def others_of(run: RunContext[Any], state: Discussion, spoken: Mapping[str, Message], agent: str) -> list[Message]:
    """What an agent hears of a round, one message of each other agent; the settings have a field `control`."""
    own = spoken[agent]
    others = [spoken[other] for other in run.settings.speakers() if other != agent]
    match run.settings.control:
        case "own":
            return [own for _ in others]
        case "empty":
            return [replace(said, text="", begun="", public=None, payload=None) for said in others]
        case "decoy":
            return [_decoy(state, said) for said in others]
    return others


def _decoy(state: Discussion, said: Message) -> Message:
    """A solution of another question in the place of a message, in words: each speaker's own, in every round."""
    text = state["decoys"][said.order % len(state["decoys"])]  # the opening saw to it that there are any
    return replace(said, text=text, begun="", public=None, payload=None)
