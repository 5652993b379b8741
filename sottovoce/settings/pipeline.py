"""The settings of Pipeline."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents
from sottovoce.core.errors import UsageError
from sottovoce.settings.base import Settings

STAGES = ("planner", "critic", "refiner")
SPECIALISTS = ("calculator", "researcher", "analyst")


class Pipeline(Settings):
    """Agents prepare an answer for the last one (LatentMAS).

    Planner, critic and refiner before a judge, or specialists before a summariser (arXiv 2511.20639).
    """

    acts: ClassVar[tuple[str, ...]] = ("plan", "critique", "refine", "contribute", "answer")
    default_temperature: ClassVar[float | None] = 0.6  # the default of the authors' run.py, with top-p 0.95

    shape: Literal["sequential", "hierarchical"] = Field(
        default="sequential",
        description="sequential (planner, critic, refiner and judge, one after another) or hierarchical (specialists "
        "in parallel, then a summariser).",
    )
    agents: Agents = Field(
        default=3, ge=1, description="Number of specialists of a hierarchical pipeline, not counting the summariser."
    )

    def speakers(self) -> list[str]:
        """Return planner, critic and refiner, or the specialists: calculator, researcher, analyst, specialist_4 ..."""
        if self.shape == "sequential":
            return [*STAGES]
        more = [f"specialist_{number}" for number in range(len(SPECIALISTS) + 1, self.agents + 1)]
        return [*SPECIALISTS[: self.agents], *more]

    def others(self) -> list[str]:
        """Return the agent that answers."""
        return ["judge" if self.shape == "sequential" else "summariser"]

    def edges(self) -> list[tuple[str, str]]:
        """Return edges from each stage to all later ones, or from each specialist to the summariser."""
        names = self.names()
        if self.shape == "hierarchical":
            return [(agent, names[-1]) for agent in self.speakers()]
        return [(speaker, hearer) for place, speaker in enumerate(names) for hearer in names[place + 1 :]]

    def topology(self) -> tuple[str, ...]:
        """Return the shape and the number of agents: each has a node."""
        return self.shape, *super().topology()

    @model_validator(mode="after")
    def _has_its_stages(self) -> Pipeline:
        if self.shape == "sequential" and self.agents != len(STAGES):
            raise UsageError(
                f"agents is {self.agents}, but a sequential pipeline always has {', '.join(STAGES)} and a judge; "
                "leave it out, or use --shape hierarchical"
            )
        return self
