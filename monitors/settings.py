"""How features are measured and how a training goes: what the command line reads. Nothing here imports numpy."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from sottovoce.bounds import Few
from sottovoce.checked import Checked
from sottovoce.errors import UsageError, choose
from sottovoce.monitors.positions import POSITIONS
from sottovoce.monitors.tokens import WHOLE

TURN = "turn"
"""The feature that every monitor has: messages since the game began or was reset, 0-based."""
ALL = "all"
"""The role of a monitor that serves every role."""
CHANCE = "chance"
"""The only feature of a random monitor: a number drawn uniformly from [0, 1) at each turn."""
RANDOM = "random"
EXCESS = "kurtosis_logprob_excess"
"""What the most probable tokens have besides the features of whole distributions."""
DEGREES = (1, 2, 3, 4, 5)
Rank = Literal["best", "second", "worst", "random"]


class Measure(Checked):
    """How features are measured; a monitor serves only those that are measured as its own were."""

    model_config = ConfigDict(title="Features")

    positions: str = Field(
        default="all",
        description="where in a reply; of rows of runs else where it matters in their scheme",
        json_schema_extra=lambda schema: schema.update(enum=[*POSITIONS.names()]),
    )
    distribution: Literal["whole", "top"] = Field(default="whole", description="of all tokens, or the most probable")
    top: Few = Field(default=10, ge=2, description="of the most probable tokens: how many")
    renormalise: bool = Field(default=False, description="of the most probable tokens: let them sum to 1")

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


class Training(Checked):
    """How monitors are fitted and chosen; the defaults are the paper's, the bounds of the turn its code's."""

    features: list[str] = Field(default=[], description="use exactly these, not the best set; turn is always one")
    degree: Few | None = Field(default=None, ge=1, le=5, description="of the polynomial, not the best of 1 to 5")
    kurtosis: Literal["kurtosis", "kurtosis_logprob_excess"] = Field(
        default="kurtosis", description="the paper's, or the one of its code"
    )
    log_features: bool = Field(default=False, description="take logarithms of entropy and varentropy")
    turn_bounds: Literal["fixed", "rows"] = Field(
        default="fixed", description="what becomes -1 and 1: turns 0 and 15, or the least and the most of the rows"
    )
    rank: Rank = Field(
        default="best", description="which candidate to save; second, worst and random are for comparison"
    )
    false_alarms: float | None = Field(
        default=None, gt=0, lt=1, description="set the threshold so that this part of successful games exceed it"
    )
    seed: int = Field(default=777, ge=0, lt=2**32, description="of the split of the games")

    @property
    def candidates(self) -> list[tuple[tuple[str, ...], int]]:
        """Feature sets with their turn, by degree: those that win a tie come first."""
        names = (*WHOLE[:2], self.kurtosis)
        sets = [each for n in (1, 2, 3) for each in combinations(names, n)]
        if self.features:
            sets = [tuple(dict.fromkeys(name for name in self.features if name != TURN))]
        return [((*each, TURN), degree) for degree in ([self.degree] if self.degree else DEGREES) for each in sets]
