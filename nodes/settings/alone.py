"""The settings of the baselines, in which nobody hears anybody."""

from __future__ import annotations

from pydantic import Field, model_validator

from sottovoce.errors import UsageError
from sottovoce.nodes.settings.base import Settings


class Single(Settings):
    """One agent answers once, with the documents of all: the first baseline."""


class SelfConsistency(Settings):
    """Independent samples of one agent, and the most frequent answer: the second baseline.

    Samples are drawn in words under every protocol: a mean of embeddings leaves nothing to draw.
    """

    samples: int = Field(default=5, ge=1, description="how many samples")

    def speakers(self) -> list[str]:
        """sample_1 .. sample_k."""
        return [f"sample_{i + 1}" for i in range(self.samples)]

    @model_validator(mode="after")
    def _of_one_agent(self) -> SelfConsistency:
        for field in ("model", "temperature", "system"):
            if len(getattr(self, field)) > 1:
                raise UsageError(f"{field} has {len(getattr(self, field))} values; samples are of one agent, give one")
        return self
