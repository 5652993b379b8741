"""The settings of ReConcile."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Settings


class ReConcile(Settings):
    """Agents give answers with a confidence, read all of them, and vote by weight (ReConcile, Chen et al. 2023)."""

    discusses: ClassVar[bool] = True

    agents: int = Field(default=3, ge=2, description="how many agents; the paper has three different models")
    rounds: int = Field(default=3, ge=0, description="rounds of discussion after the first answers, at most")
    vote: Literal["weighted", "plain"] = Field(
        default="weighted", description="count recalibrated confidences, or heads; the other is reported beside it"
    )
    convincing: list[str] = Field(
        default=[], description="files of convincing samples, one of each agent's model, or one for all"
    )
    convincing_in: Literal["all", "discussion"] = Field(
        default="all", description="where they are shown: in every phase, or not before the first answer"
    )

    @model_validator(mode="after")
    def _samples_fit(self) -> ReConcile:
        self.each("convincing")
        if self.convincing_in != "all" and not self.convincing:
            raise UsageError(f"convincing_in is {self.convincing_in!r}, but no samples were given; add --convincing")
        return self
