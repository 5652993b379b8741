"""From a reply to the features of one turn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from sottovoce.checked import Checked
from sottovoce.errors import UsageError, choose
from sottovoce.monitors.features import Features, combined, independent, joint, statistics
from sottovoce.monitors.positions import POSITIONS, Spot
from sottovoce.monitors.tokens import Tokens


class Measure(Checked):
    """How features are measured; a monitor serves only those that are measured as its own were."""

    positions: str = Field(default="all", description="where")
    distribution: Literal["whole", "top"] = Field(default="whole", description="of all tokens, or the most probable")
    top: int = Field(default=10, ge=2, description="of distribution=top: how many")
    renormalise: bool = Field(default=False, description="of distribution=top: let them sum to 1")

    @field_validator("positions")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in POSITIONS:
            raise UsageError(choose("positions", name, POSITIONS.names()))
        return name

    def __str__(self) -> str:
        """For a reader: "positions id, top 10, as they are"."""
        of = "whole distributions"
        if self.distribution == "top":
            of = f"top {self.top}, {'renormalised' if self.renormalise else 'as they are'}"
        return f"positions {self.positions}, {of}"

    def features(self, tokens: Tokens) -> Features | None:
        """The highest of each statistic over the selected positions; None where the reply has none of them.

        Of whole distributions: entropy, varentropy, kurtosis; of the most probable tokens kurtosis_logprob_excess too.

        Raises:
            UsageError: the model did not return what is to be measured.
        """
        spots = POSITIONS[self.positions](tokens)
        return combined(self._at(tokens, spot) for spot in spots) if spots else None

    def _at(self, tokens: Tokens, spot: Spot) -> Features:
        if self.distribution == "top":
            return statistics(joint([self._top(tokens, at) for at in spot]), renormalise=self.renormalise)
        if not tokens.whole:
            raise UsageError("the model returned its most probable tokens alone; measure with distribution=top")
        first, *others = ({name: values[at] for name, values in tokens.whole.items()} for at in spot)
        for other in others:
            first = independent(first, other)
        return first

    def _top(self, tokens: Tokens, at: int) -> list[float]:
        found = list(tokens.top[at][: self.top])
        if len(found) < self.top:
            raise UsageError(f"{len(found)} most probable tokens are known of a position; expected top={self.top}")
        return found
