"""The options of the protocols, each declared once: for code, command line, forms and files alike. Loads no torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sottovoce.bounds import Few
from sottovoce.checked import Checked
from sottovoce.errors import UsageError
from sottovoce.trust import Names

LONGEST_REPLY = 512  # tokens, of the debates in SDE (arXiv 2506.19209)
CompatName = Literal["paper", "reference"]
Partial = Literal["entropy", "entropy_reversed", "max", "max_reversed"]
CriterionAt = Literal["one", "generation"]
Inject = Literal["latest", "all"]
Carry = Literal["model", "bfloat16", "int8"]
Probe = Literal["none", "shuffled", "zeroed", "noise", "noise_cov", "text"]
FROM_A_RUN = ("shuffled", "noise_cov")
"""Probes that replace what is heard by what another run says."""


class ProtocolOptions(Checked):
    """What every protocol can be told."""

    compat: CompatName = Field(default="paper", description="follow the papers, or their published code")
    probe: Probe = Field(
        default="none",
        description="replace what heard messages carry beside words, to see what it does: by that of another question, "
        "by nothing (cipher: the mean row), by noise of equal norm (noise_cov: with the covariance of other "
        "questions' messages), by the nearest tokens",
    )
    probe_from: Annotated[str, Names("run")] = Field(
        default="",
        description="of --probe shuffled and noise_cov: the finished run whose payloads are heard; its folder, or its "
        "name beside this run (in an experiment: an earlier row)",
    )

    @model_validator(mode="after")
    def _shuffled_from_a_run(self) -> Self:
        if (self.probe in FROM_A_RUN) != bool(self.probe_from):
            raise UsageError(
                f"probe is {self.probe!r} and probe_from {self.probe_from!r}; give shuffled or noise_cov and a "
                "finished run, or another probe alone"
            )
        return self


class LatentOptions(ProtocolOptions):
    """In how many bytes a message carries what it does beside words."""

    carry_as: Carry = Field(
        default="model", description="cipher, sde, hidden: dtype of what is carried; int8 has a scale for each row"
    )
    keep: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="cipher, sde, hidden: carry this share of a message's tokens, the most uncertain; "
        "the others are heard as words",
    )
    rank: Few | None = Field(
        default=None, ge=1, description="cipher, sde, hidden: carry an approximation of this rank, for each layer"
    )

    @property
    def compresses(self) -> bool:
        """Whether anything is carried otherwise than it was made."""
        return (self.carry_as, self.keep, self.rank) != ("model", 1.0, None)


class CipherOptions(LatentOptions):
    """Where CIPHER averages."""

    partial: Partial | None = Field(
        default=None, description="cipher: average only where uncertain (or certain), else one token"
    )
    partial_at: CriterionAt = Field(
        default="one", description="cipher: take the criterion of --partial at temperature one, or the generation's"
    )
    threshold: float | None = Field(
        default=None, allow_inf_nan=False, description="cipher: of --partial, nats or probability"
    )
    bridge: bool = Field(
        default=False, description="cipher: between two vocabularies, carry what both share, and the rest as words"
    )

    @model_validator(mode="after")
    def _threshold_of_a_criterion(self) -> Self:
        if self.partial is None and self.threshold is not None:
            raise UsageError(
                "cipher got a threshold but no criterion; set partial to one of entropy, max, ..._reversed"
            )
        return self

    @model_validator(mode="after")
    def _bridged_as_it_is(self) -> Self:
        if self.bridge and self.probe != "none":
            raise UsageError(f"probe {self.probe!r} replaces what goes between equal vocabularies; leave out bridge")
        if self.bridge and self.compresses:
            raise UsageError("a bridge carries means as they are; leave out carry_as, keep and rank")
        return self


class StateOptions(LatentOptions):
    """Which states SDE and `hidden` read and add, and for whom."""

    layers: tuple[Annotated[Few, Field(ge=0)], ...] = Field(
        default=(), description="sde, hidden: decoder layers, 0-based"
    )
    strength: float = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="sde, hidden: Factor on the states that a hearer adds; 1 as in the paper, 0 leaves words alone.",
    )
    inject: Inject = Field(default="latest", description="sde, hidden: which messages carry their states")
    allow_other_weights: bool = Field(
        default=False, description="sde, hidden: let models of equal shape exchange states"
    )
