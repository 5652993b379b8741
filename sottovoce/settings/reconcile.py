"""The settings of ReConcile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names
from sottovoce.settings.base import Voting


class ReConcile(Voting):
    """Agents vote, weighted by their confidence (ReConcile).

    They answer with a confidence, read all answers, and answer again (Chen et al. 2023).
    """

    agents: Agents = Field(default=3, ge=2, description="Number of agents; the paper uses three different models.")
    rounds: Rounds = Field(
        default=3, ge=0, description="Maximum number of rounds of discussion after the first answers."
    )
    vote: Literal["weighted", "plain"] = Field(
        default="weighted",
        description="Count votes weighted (by recalibrated confidence) or plain; the result of the other is reported "
        "too.",
    )
    convincing: Annotated[list[str], Names("file of convincing samples")] = Field(
        default=[], description="Files of convincing samples: one for each agent's model, or one for all."
    )
    convincing_in: Literal["all", "discussion"] = Field(
        default="all",
        description="Prompts with convincing samples: all, or discussion (not those for the first answers).",
    )

    @model_validator(mode="after")
    def _samples_fit(self) -> ReConcile:
        self.per_agent("convincing")
        if self.convincing_in != "all" and not self.convincing:
            raise UsageError(f"convincing_in is {self.convincing_in!r}, but there are no samples; add --convincing")
        return self
