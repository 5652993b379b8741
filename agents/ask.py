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
"""Notes on a reply that is not whole; after STOPPED follows its server's word for the reason."""
WHOLE = frozenset(
    ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "stop_criteria_met", "endoftext", "complete", "completed")
)
"""Servers' words for the end of a whole reply; a reason that is not listed means that the reply is not whole."""
CALLS = frozenset(("tool_calls", "tool_call", "tool_use", "function_call"))
"""Servers' words for the end of a whole reply that calls a tool."""
_OF_TOKENS = (f"max_{kind}tokens" for kind in ("", "new_", "output_", "completion_"))
LENGTHS = frozenset(("length", "max_length", "model_length", *_OF_TOKENS))
"""Servers' words for the limit of a reply's length."""
THOUGHTS_ALONE = "its text is in the field of thoughts; see the server's reasoning parser"
"""A remark on a reply without a text."""


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
