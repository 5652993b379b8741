"""The settings of a discussion whose course a rule gives."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sottovoce.nodes.settings.base import Settings
from sottovoce.nodes.settings.cmd import SECRETARY


class MesSync(Settings):
    """Messages are passed on by a rule, round by round (CMD, arXiv 2402.18272, Algorithm 2)."""

    discusses: ClassVar[bool] = True

    agents: int = Field(default=3, ge=1, description="how many agents")
    depth: int = Field(default=100, ge=1, description="rounds, at most: a rule that is not over by then is refused")
    secretary: bool = Field(default=False, description="ask a secretary at a tie")

    def others(self) -> list[str]:
        """The secretary, who is asked at a tie alone."""
        return [SECRETARY] if self.secretary else []

    def topology(self) -> tuple[str, ...]:
        """A node for each agent, and one for a secretary."""
        return *super().topology(), f"{'a' if self.secretary else 'no'} secretary"
