"""Options of the protocols, declared once for code, command line, forms and files; torch is not imported."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError
from sottovoce.core.trust import Names
from sottovoce.core.validation import Checked

LONGEST_REPLY = 512  # tokens, as in the debates of SDE (arXiv 2506.19209)
CompatName = Literal["paper", "reference"]
Partial = Literal["entropy", "entropy_reversed", "max", "max_reversed"]
CriterionAt = Literal["one", "generation"]
Inject = Literal["latest", "all"]
Carry = Literal["model", "bfloat16", "int8"]
Probe = Literal["none", "shuffled", "zeroed", "noise", "noise_cov", "text"]
FROM_A_RUN = ("shuffled", "noise_cov")
"""Probes that need the payloads of another run."""


class ProtocolOptions(Checked):
    """Options of every protocol."""

    compat: CompatName = Field(default="paper", description="Follow the papers, or their published code.")
    probe: Probe = Field(
        default="none",
        description="Replace the payloads of heard messages, to see their effect: with another question's, "
        "with nothing (cipher: the mean row), with noise of equal norm (noise_cov: with the covariance of other "
        "questions' messages), or with the nearest tokens.",
    )
    probe_from: Annotated[str, Names("run")] = Field(
        default="",
        description="For --probe shuffled and noise_cov: the finished run whose payloads are heard; its folder, or its "
        "name next to this run (in an experiment: an earlier row).",
    )

    @model_validator(mode="after")
    def _shuffled_from_a_run(self) -> Self:
        if self.probe in FROM_A_RUN and not self.probe_from:
            raise UsageError(
                f"probe {self.probe!r} takes the messages of another run, and none was named; add --probe-from with a "
                "finished run of the same scheme, protocol and model"
            )
        if self.probe_from and self.probe not in FROM_A_RUN:
            raise UsageError(
                f"probe_from is {self.probe_from!r}, and probe {self.probe!r} takes nothing from another run; drop it, "
                f"or use --probe {' or '.join(FROM_A_RUN)}"
            )
        return self


class LatentOptions(ProtocolOptions):
    """Options that compress the payload of a message."""

    carry_as: Carry = Field(
        default="model", description="cipher, sde, hidden: dtype of carried tensors; int8 has a scale for each row."
    )
    keep: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="cipher, sde, hidden: carry this share of a message's tokens, the most uncertain; "
        "the others are heard as words.",
    )
    rank: Few | None = Field(
        default=None, ge=1, description="cipher, sde, hidden: carry an approximation of this rank, for each layer."
    )

    @property
    def compresses(self) -> bool:
        """True if the payload is compressed."""
        return (self.carry_as, self.keep, self.rank) != ("model", 1.0, None)


class CipherOptions(LatentOptions):
    """Options of CIPHER."""

    partial: Partial | None = Field(
        default=None, description="cipher: average only where the model is uncertain (or certain), else send one token."
    )
    partial_at: CriterionAt = Field(
        default="one",
        description="cipher: compute the criterion of --partial at temperature one, or at the generation's.",
    )
    threshold: float | None = Field(
        default=None, allow_inf_nan=False, description="cipher: threshold of --partial, in nats or as a probability."
    )
    bridge: bool = Field(
        default=False,
        description="cipher: between two vocabularies, carry what the shared tokens hold, and the rest as words.",
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
    """Options of SDE and `hidden`: which states are read and added."""

    layers: tuple[Annotated[Few, Field(ge=0)], ...] = Field(
        default=(), description="sde, hidden: decoder layers, 0-based."
    )
    strength: float = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="sde, hidden: factor on the states that a hearer adds; 1 as in the paper, 0 adds nothing.",
    )
    inject: Inject = Field(default="latest", description="sde, hidden: which messages carry their states.")
    allow_other_weights: bool = Field(
        default=False, description="sde, hidden: let models of equal shape exchange states."
    )
