"""The protocol nl: messages are words. A message is heard as the exact tokens that were generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from sottovoce.channels.message import Turn
from sottovoce.channels.protocol import Load, Prompt, Protocol
from sottovoce.models import LoadedModel


class NL(Protocol):
    """The protocol of natural language (Du et al. 2023)."""

    name: ClassVar[str] = "nl"
    latent: ClassVar[bool] = False

    def encode_prompt(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        """Encode turns as the base class does; under `reference` each turn is one text, including its messages."""
        if self.rules.retokenise:
            turns = [replace(turn, parts=(turn.text,)) for turn in turns]
        return super().encode_prompt(turns, loaded, load)
