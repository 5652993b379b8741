"""What an agent hears of the others' messages, or what stands in their places as a control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.state import Discussion

DOT, REPEATED = " .", 64
"""What filler repeats, and how often it is counted to know its tokens."""


def others_of(run: RunContext[Any], state: Discussion, spoken: Mapping[str, Message], agent: str) -> list[Message]:
    """What an agent hears of a round, one message of each other agent; the settings have a field `control`."""
    own = spoken[agent]
    others = [spoken[other] for other in run.settings.speakers() if other != agent]
    match run.settings.control:
        case "own":
            return [own for _ in others]
        case "empty":
            return [replace(said, text="", begun="", public=None, payload=None) for said in others]
        case "filler":
            dots = [filler(said.whole, run.model(agent)) for said in others]
            return [
                replace(said, text=text, begun="", public=None, payload=None)
                for said, text in zip(others, dots, strict=True)
            ]
        case "decoy":
            return [_decoy(state, said) for said in others]
    return others


def _decoy(state: Discussion, said: Message) -> Message:
    """A solution of another question in the place of a message, in words: each speaker's own, in every round."""
    text = state["decoys"][said.order % len(state["decoys"])]  # the opening saw to it that there are any
    return replace(said, text=text, begun="", public=None, payload=None)


def filler(text: str, model: BaseChatModel) -> str:
    """Return dots, as many tokens as a text has for a local model, or the nearest number; for others as many words."""
    if isinstance(model, HookedChatModel):
        chat = model.loaded.chat
        wanted, each = len(chat.ids(text, plain=True)), len(chat.ids(DOT * REPEATED, plain=True)) / REPEATED
    else:
        wanted, each = len(text.split()), 1.0
    return (DOT * round(wanted / each)).strip()
