"""A request to an agent, from the act that makes it to the model that replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sottovoce.channels.message import Part, Place, Turn
from sottovoce.core.response_format import Form

WORDS = "nl"
"""The protocol of words."""
HUMAN = "human"
"""The source of messages that a person wrote."""
REFUSAL, EMPTY = "it was refused by its model", "it is empty"
"""Remarks on a reply without a text."""
NOWHERE = Place(0, 0, 0, "", "", 0)
"""The place of a reply that no discussion asks for."""
CUT, STOPPED = "cut at the token limit", "stopped by its server"
ENDED_EARLY = {"length": CUT, "max_tokens": CUT} | dict.fromkeys(("content_filter", "safety", "recitation"), STOPPED)
"""The note on a reply that is not whole, by its provider's word for the reason."""


@dataclass(frozen=True)
class Ask:
    """A request of an act, with the format of the reply. Fields that are None use the agent's values."""

    act: str
    turns: tuple[Turn, ...]
    response_format: Form | None = None
    """The format of the reply."""
    prefill: str | tuple[Part, ...] = ""
    """The beginning of the reply, which the agent continues: "Thought 3:". It may contain messages of others."""
    stop: tuple[str, ...] = ()
    """Strings that end the reply; they are not part of it."""
    max_tokens: int | None = None
    temperature: float | None = None
    protocol: str | None = None
    """The protocol of the reply: with `nl`, an agent that hears by a latent protocol answers in words."""
    silent: bool = False
    """True if the reply needs no words: a protocol that carries enough without them then writes none."""
    thinks: bool = True
    """False if a model that thinks is to reply without thoughts."""
    sampling: Mapping[str, float | None] = field(default_factory=dict)
    """Other sampling values of an application's call: top_p, top_k, repetition_penalty."""
    tools: Any = None  # Any: `Tools`, a module above
    """The tools of an application's call."""

    place: Place = NOWHERE
    """The place of the reply on the board; `say` sets it, and the fields after it."""
    seed: int | None = None
    asked: Literal["", "repair", "answer"] = ""
    """The reason for asking if it is not the first attempt: see `Message.asked`."""
