"""The settings of MADRA."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sottovoce.core.bounds import Agents, Few, Rounds, Tokens
from sottovoce.settings.retrieval import Pooled


class MADRA(Pooled):
    """Debaters choose evidence, and talk to agree (MADRA).

    The evidence is from one pool; a judge finds whether they agree (arXiv 2312.04854).
    """

    acts: ClassVar[tuple[str, ...]] = ("select", "answer", "revise", "agree", "summarise")
    shows_documents: ClassVar[bool] = False
    default_temperature: ClassVar[float | None] = 0.5

    agents: Agents = Field(default=2, ge=2, description="Number of debaters, not counting judge and summarizer.")
    rounds: Rounds = Field(
        default=3,
        ge=1,
        description="Maximum number of rounds; debaters speak in parallel in the first and in turn in later ones.",
    )
    self_selection: bool = Field(
        default=True, description="Let each debater choose its evidence; otherwise all of them read all of it."
    )
    most: Few = Field(default=3, ge=1, description="Maximum number of pieces of evidence that a debater chooses.")
    select_tokens: Tokens = Field(default=512, ge=1, description="Maximum length of an evidence selection, in tokens.")
    search_again: bool = Field(
        default=False, description="Search again before each later round, with the debaters' messages."
    )

    def others(self) -> list[str]:
        """Return the judge, who checks if debaters agree, and the summarizer."""
        return ["judge", "summarizer"]
