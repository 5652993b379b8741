"""nl: messages are words. A message is heard as the very tokens that were generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sottovoce.channels.message import Turn
from sottovoce.channels.protocol import Load, Prompt, Protocol
from sottovoce.models import LoadedModel


class NL(Protocol):
    """Natural language (Du et al. 2023)."""

    name: ClassVar[str] = "nl"
    latent: ClassVar[bool] = False

    def hear(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        """As the base does; under `reference` each turn is one text, messages included."""
        if self.rules.retokenise:
            turns = [Turn(turn.role, (turn.text,)) for turn in turns]
        return super().hear(turns, loaded, load)
