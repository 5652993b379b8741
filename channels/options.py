"""Options of the protocols, declared once for code, command line, forms and files; torch is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError
from sottovoce.core.files import RUN
from sottovoce.core.trust import Names
from sottovoce.core.validation import Checked

LONGEST_REPLY = 512  # tokens, as in the debates of SDE (arXiv 2506.19209)
CompatName = Literal["paper", "reference"]
Partial = Literal["entropy", "entropy_reversed", "max", "max_reversed"]
CriterionAt = Literal["one", "generation"]
Inject = Literal["latest", "all"]
CarryAs = Literal["model", "bfloat16", "int8"]
Carry = Literal["prompt", "reply", "both"]
Keep = Literal["all", "added", "thoughts"]
Positions = Literal["shifted", "paper"]
PlaceOfCache = Literal["before", "quoted"]
Merge = Literal["replace", "sum", "mean"]
Probe = Literal["none", "shuffled", "zeroed", "noise", "noise_cov", "text"]
FROM_A_RUN = ("shuffled", "noise_cov")
"""Probes that need the payloads of another run."""


@dataclass(frozen=True)
class Compat:
    """Choices between the papers and their published code where these differ; defaults follow the papers.

    docs/protocols/index.md has the table.
    """

    cold_is_one_hot: bool = True
    """CIPHER at T = 0: the one-hot argmax, or softmax(logits)."""
    stop_by: Literal["nearest", "argmax"] = "nearest"
    """CIPHER stops when EOS is the token nearest to the new row, or when it is the argmax of the logits."""
    keep_stop_row: bool = False
    every_eos: bool = True
    """CIPHER stops at every EOS id of tokenizer and generation configuration, or only at the tokenizer's."""
    true_one_hot: bool = True
    """Weights of partial CIPHER where it does not average: one-hot, or the mask of probabilities >= the criterion."""
    max_at_threshold: Literal["averaged", "greedy"] = "averaged"
    """Partial CIPHER by the largest probability, if it equals the threshold."""
    normed_last_state: bool = False
    """SDE reads the last layer after the final norm."""
    retokenise: bool = False
    """NL renders and tokenizes the whole conversation again for each prompt."""
    pasted: bool = False
    """Latent protocols render turns after the first user turn as pieces, whose texts no template trims."""
    readable_base: bool = True
    """The default temperature of a model whose files name none: one that suits the model, or 1."""
    guided: bool = True
    """Replies are constrained to their formats."""
    causal: bool = True
    """KV: layers with fewer positions of the sender than others read the prompt causally, or under the left part of the
    others' mask: a query then sees as many positions after it as the layer lacks."""
    masks_hide: bool = True
    """KV: a mask hides positions when the importance of layers is measured, or is added to the scores as 1 and 0."""
    every_first: bool = True
    """KV: each of several senders hands over the first position of layers left out, or the first sender alone."""
    every_layer: bool = True
    """KV: in a reader of another depth each layer takes the sender's layer at its place; or all layers whose place it
    is, one after another, and in a deeper reader some take none."""
    ties: Literal["first", "last"] = "first"
    """KV: which of two layers of equal score is chosen."""


COMPAT: Mapping[CompatName, Compat] = {
    "paper": Compat(),
    "reference": Compat(
        cold_is_one_hot=False, stop_by="argmax", keep_stop_row=True, every_eos=False, true_one_hot=False,
        max_at_threshold="greedy", normed_last_state=True, retokenise=True, pasted=True, readable_base=False,
        guided=False, causal=False, masks_hide=False, every_first=False, every_layer=False, ties="last",
    ),
}  # fmt: skip


class ProtocolOptions(Checked):
    """Options of every protocol."""

    compat: CompatName = Field(
        default="paper", description="Follow the papers, or their published code where it differs."
    )
    probe: Probe = Field(
        default="none",
        description="Replace the payloads of heard messages, to see their effect: with another question's, "
        "with nothing (cipher: the mean row), with noise of equal norm (noise_cov: with the covariance of other "
        "questions' messages), or with the nearest tokens.",
    )
    probe_from: Annotated[str, Names("run", sibling=RUN)] = Field(
        default="",
        description="For --probe shuffled and noise_cov: the finished run whose payloads are heard: its folder, or its "
        "name if it is in the same folder as this run (in an experiment: an earlier row).",
    )

    @model_validator(mode="after")
    def _shuffled_from_a_run(self) -> Self:
        if self.probe in FROM_A_RUN and not self.probe_from:
            raise UsageError(
                f"probe {self.probe!r} needs messages of another run, but no run was named; add `probe_from=` with a "
                "finished run of the same scheme, protocol and model"
            )
        if self.probe_from and self.probe not in FROM_A_RUN:
            raise UsageError(
                f"probe_from is {self.probe_from!r}, but probe {self.probe!r} does not use another run; drop it, "
                f"or use `probe='{FROM_A_RUN[0]}'` or `probe='{FROM_A_RUN[1]}'`"
            )
        return self


class LatentOptions(ProtocolOptions):
    """Options that compress the payload of a message."""

    carry_as: CarryAs = Field(
        default="model", description="All but nl: dtype of carried tensors; int8 has a scale for each row."
    )
    keep: Annotated[float, Field(gt=0, le=1)] | Keep = Field(
        default=1.0,
        description="cipher, sde, hidden: share of a message's tokens to carry, the most uncertain ones; "
        "others are heard as words. kv, thoughts: all (including what the sender received), added (only what it "
        "added) or thoughts (only latent steps); 1.0 means added for kv, and all for thoughts "
        "(added in mad and ia, whose turns are many).",
    )

    @property
    def kept_share(self) -> float:
        """The share of tokens that carry a payload."""
        return 1.0 if isinstance(self.keep, str) else self.keep

    @property
    def compresses(self) -> bool:
        """True if the payload is compressed."""
        return (self.carry_as, self.kept_share) != ("model", 1.0)


class CipherOptions(LatentOptions):
    """Options of CIPHER."""

    partial: Partial | None = Field(
        default=None, description="cipher: average only where the model is uncertain (or certain), else send one token."
    )
    partial_at: CriterionAt = Field(
        default="one",
        description="cipher: temperature for the criterion of --partial: one, or that of the generation.",
    )
    threshold: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="cipher: threshold of --partial. If not set: an entropy of 1.869 nats, or a largest probability "
        "of 0.8.",
    )
    shared_vocabulary: bool = Field(
        default=False,
        description="cipher: between two vocabularies, carry what the shared tokens hold, and the rest as words.",
    )

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.partial is None and self.threshold is not None:
            raise UsageError(
                "cipher got a threshold but no criterion; set partial to one of entropy, max, ..._reversed"
            )
        if self.shared_vocabulary and self.probe != "none":
            raise UsageError(f"probe {self.probe!r} needs equal vocabularies; leave out shared_vocabulary")
        if self.shared_vocabulary and self.compresses:
            raise UsageError("means over a shared vocabulary cannot be compressed; leave out carry_as and keep")
        return self


class HeardOptions(LatentOptions):
    """Options of protocols that change more than the words that are read."""

    inject: Inject = Field(
        default="latest", description="All but nl, cipher: messages that are heard with their payload."
    )
    allow_other_weights: bool = Field(
        default=False,
        description="All but nl, cipher: let models of other weights exchange what fits (sde, hidden: models of equal "
        "shape), though the numbers of one model mean nothing to another.",
    )


class LayerOptions(HeardOptions):
    """Options of protocols that carry several layers."""

    layers: tuple[Annotated[Few, Field(ge=0)], ...] = Field(
        default=(),
        description="sde, hidden, kv, thoughts: decoder layers, 0-based. "
        "If not set: those of SDE's paper for its models, else one at 0.7 of the depth; for kv and thoughts all.",
    )


class StateOptions(LayerOptions):
    """Options of SDE and `hidden`: which states are read and added."""

    strength: float = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="sde, hidden: factor on the states that are added; 1 as in the paper, 0 adds nothing.",
    )


class CacheOptions(LayerOptions):
    """Options of `kv` and `thoughts`: the keys and values that are handed over, and their positions."""

    carry: Carry | None = Field(
        default=None,
        description="kv, thoughts: hand over keys and values of the sender's prompt (with its documents and role), of "
        "its reply, or of both. If not set: prompt for kv, both for thoughts.",
    )
    layer_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="kv, thoughts: share of layers to hand over; of the others only the first position is sent.",
    )
    layer_alpha: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="kv, thoughts: choose that share by attention to a calibration question (1), by nearness to the "
        "middle layer (0), or by a mean of both.",
    )
    positions: Positions = Field(
        default="shifted",
        description="kv, thoughts: rotate keys on to where they stand (shifted), or leave those of several senders as "
        "they are (paper, as in the published code).",
    )
    bridge: Annotated[tuple[str, ...], Names("bridge")] = Field(
        default=(),
        description="kv: folders that `bridge fit` wrote: between the two models of each, keys and values are mapped. "
        "One for each direction.",
    )
    place: PlaceOfCache = Field(
        default="before",
        description="kv, thoughts: put keys and values before the prompt, or in place of the quoted words.",
    )


class ThoughtsOptions(CacheOptions):
    """Options of `thoughts`."""

    latent_steps: Few = Field(default=10, ge=0, description="thoughts: number of latent steps before a message.")
    realign: bool = Field(
        default=False,
        description="thoughts: map states to input embeddings by least squares; otherwise only their length is set.",
    )


class GraftOptions(HeardOptions):
    """Options of `graft`: which state is taken, and where and how it is put in."""

    layer_from: Few | None = Field(
        default=None,
        ge=1,
        description="graft: decoder layer (0-based) whose input is taken from the sender. "
        "If not set: at 26/32 of the depth.",
    )
    layer_to: Few | None = Field(
        default=None,
        ge=1,
        description="graft: decoder layer (0-based) whose input is changed in the receiver. If not set: at 26/32 "
        "of the depth.",
    )
    merge: Merge = Field(
        default="replace",
        description="graft: how it changes the receiver's state: replace it, add to it (sum), or average both (mean).",
    )
