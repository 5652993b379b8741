"""Options for measuring features and for training monitors, as on the command line. Nothing here imports numpy."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.validation import Checked
from sottovoce.monitors.tokens import FULL, POSITIONS

TURN = "turn"
"""The feature that every fitted monitor has: messages since the game started or was reset, 0-based."""
ALL = "all"
"""Role of a monitor for every role."""
CHANCE = "chance"
"""The only feature of a random monitor: a number drawn uniformly from [0, 1) at each turn."""
RANDOM = "random"
EXCESS = "kurtosis_logprob_excess"
"""The feature that only the most probable tokens have, besides those of whole distributions."""
DEGREES = (1, 2, 3, 4, 5)
Rank = Literal["best", "second", "worst", "random"]


class Measure(Checked):
    """The measurement of features; a monitor can only be used on features measured as in its training."""

    model_config = ConfigDict(title="Features")

    positions: str = Field(
        default="all",
        description="Positions of a reply to measure. For rows of runs, the default is that of their scheme.",
        json_schema_extra=lambda schema: schema.update(enum=[*POSITIONS.names()]),
    )
    distribution: Literal["whole", "top"] = Field(
        default="whole", description="Measure all tokens, or only the most probable."
    )
    top: Few = Field(default=10, ge=2, description="Number of most probable tokens.")
    renormalise: bool = Field(default=False, description="Scale the most probable tokens to sum to 1.")

    @field_validator("positions")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in POSITIONS:
            raise UsageError(nearest("positions", name, POSITIONS.names()))
        return name

    def __str__(self) -> str:
        """Return a text for people: "positions id, top 10, as they are"."""
        of = "whole distributions"
        if self.distribution == "top":
            of = f"top {self.top}, {'renormalised' if self.renormalise else 'as they are'}"
        return f"positions {self.positions}, {of}"


class Training(Checked):
    """Settings for fitting and choosing monitors. Defaults follow the paper; the bounds of the turn follow its code."""

    features: list[str] = Field(default=[], description="Features to use instead of the best set; turn is added.")
    degree: Few | None = Field(
        default=None, ge=1, le=5, description="Degree of the polynomial (default: the best of 1 to 5)."
    )
    kurtosis: Literal["kurtosis", "kurtosis_logprob_excess"] = Field(
        default="kurtosis", description="Definition of kurtosis: the paper's, or that of its code."
    )
    log_features: bool = Field(default=False, description="Use logarithms of entropy and varentropy.")
    rank: Rank = Field(
        default="best", description="Which candidate to save; second, worst and random are for comparison."
    )
    false_alarms: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Set the threshold so that at most this share of successful games exceeds it.",
    )
    seed: int = Field(default=777, ge=0, lt=2**32, description="Seed for splitting the questions.")

    @property
    def candidates(self) -> list[tuple[tuple[str, ...], int]]:
        """Feature sets, each with `turn` last, and degrees; on a tie the earlier candidate wins."""
        names = (*FULL[:2], self.kurtosis)
        sets = [each for n in (1, 2, 3) for each in combinations(names, n)]
        if self.features:
            sets = [tuple(dict.fromkeys(name for name in self.features if name != TURN))]
        return [((*each, TURN), degree) for degree in ([self.degree] if self.degree else DEGREES) for each in sets]
