"""The messages of others that an agent hears, or the control messages that replace them."""

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
"""The text that filler repeats, and the number of repetitions used to measure its tokens."""


def others_of(run: RunContext[Any], state: Discussion, spoken: Mapping[str, Message], agent: str) -> list[Message]:
    """Return the messages of a round that an agent hears, one of each other agent, by the setting `control`."""
    own = spoken[agent]
    others = [spoken[other] for other in run.settings.speakers() if other != agent]
    match run.settings.control:
        case "own":
            return [own for _ in others]
        case "empty":
            return [replace(said, text="", begun="", public=None, payload=None) for said in others]
        case "filler":
            dots = [filler(said.full_text, run.model(agent)) for said in others]
            return [
                replace(said, text=text, begun="", public=None, payload=None)
                for said, text in zip(others, dots, strict=True)
            ]
        case "decoy":
            return [_decoy(state, said) for said in others]
    return others


def _decoy(state: Discussion, said: Message) -> Message:
    """Return a message replaced by the text of another question's solution, a fixed one for each speaker."""
    text = state["decoys"][said.order % len(state["decoys"])]  # `setup` checked that there are any
    return replace(said, text=text, begun="", public=None, payload=None)


def filler(text: str, model: BaseChatModel) -> str:
    """Return dots with about as many tokens as the text for a local model; for others, as many as its words."""
    if isinstance(model, HookedChatModel):
        chat = model.loaded.chat
        wanted, each = len(chat.ids(text, plain=True)), len(chat.ids(DOT * REPEATED, plain=True)) / REPEATED
    else:
        wanted, each = len(text.split()), 1.0
    return (DOT * round(wanted / each)).strip()
