"""Limits of a run, options of its execution, and the message of a stopped run: the saved part, and how to resume.

Nothing here imports torch or langgraph: the command line reads it to print its help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sottovoce.core.any_types import Unimported
from sottovoce.core.bounds import LONGEST_WAIT, Count
from sottovoce.core.errors import StoppedError, UsageError
from sottovoce.core.validation import Checked

SAME_COMMAND = "the same command"


class Limits(Checked):
    """Limits of a run as a whole; a stopped run keeps its messages and can be resumed."""

    model_config = ConfigDict(title="Limits")

    at_once: int = Field(default=32, ge=1, le=1_000, description="Number of discussions that run at the same time.")
    time_limit: float | None = Field(
        default=None,
        gt=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="Stop after this many seconds (counted from the start or the last resume).",
    )
    token_limit: Count | None = Field(default=None, gt=0, description="Stop after this many tokens, read and written.")
    call_limit: Count | None = Field(default=None, gt=0, description="Stop after this many model calls.")

    workers: str | None = Field(
        default=None,
        description="Run discussions on a Ray cluster: ray (as many workers as it has or gets), or ray:4 (at most "
        "four). RAY_ADDRESS names the cluster; otherwise one is started on this machine.",
    )
    gpus_per_worker: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="GPUs of each worker: a fraction (0.5) or whole (2), 0 for none (default: 1 if there are any).",
    )

    lost: Literal["refuse", "words"] = Field(
        default="refuse",
        description="If a message's payload is missing or damaged: refuse to continue, or read only its words.",
    )

    @field_validator("workers")
    @classmethod
    def _known(cls, workers: str | None) -> str | None:
        if workers is not None and not re.fullmatch(r"ray(:[1-9]\d*)?", workers):
            raise UsageError(f"workers is {workers!r}; expected 'ray', or 'ray:4' for at most four of them")
        return workers

    @field_validator("gpus_per_worker")
    @classmethod
    def _whole_above_one(cls, gpus: float | None) -> float | None:
        if gpus is not None and gpus > 1 and gpus != int(gpus):
            raise UsageError(f"gpus_per_worker is {gpus:g}; expected a fraction of a GPU, or a whole number of them")
        return gpus

    @model_validator(mode="after")
    def _of_workers(self) -> Limits:
        if self.gpus_per_worker is not None and not self.workers:
            raise UsageError("`gpus_per_worker=` belongs to `workers=`; add `workers='ray'`, or leave it out")
        return self

    def reached(self, cost: Unimported, seconds: float | None = None) -> str:
        """Return the limit that a `Cost` or `seconds` have reached, in words; empty without one.

        A limit of tokens cannot be checked if a server does not report tokens for some calls; such a call counts as
        reaching it.
        """
        if self.token_limit and cost.uncounted:
            unknown = f"no tokens were reported for {cost.uncounted:,} of {cost.calls:,} calls"
            return f"the token limit cannot be kept: {unknown}; limit the calls instead"
        taken = (("call", cost.calls, self.call_limit), ("token", cost.total, self.token_limit))
        told = [f"the {name} limit is reached: {n:,} of {most:,}" for name, n, most in taken if most and n >= most]
        late = seconds is not None and self.time_limit is not None and seconds >= self.time_limit
        return told[0] if told else self.out_of_time() if late else ""

    def out_of_time(self) -> str:
        """Return the time limit, in words."""
        return f"the time limit is reached: {self.time_limit:g} seconds"


Currency = Literal["flops", "tokens"]


class Budget(BaseModel):
    """The budget of a self-consistency run, as means per discussion in FLOPs or tokens."""

    row: str
    """The run whose cost is matched."""
    settings: str
    """The digest of its settings."""
    by: Currency
    target: float
    """Cost of a discussion of that run."""
    first: float
    """Cost of a question's first sample in the pilot."""
    further: float
    """Cost of each further sample, which may reuse the first one's prompt."""
    questions: int
    """Number of questions in the pilot."""

    @property
    def samples(self) -> int:
        """The number of samples with the cost nearest to the target, at least one."""
        return max(1, round(1 + (self.target - self.first) / self.further))

    def in_words(self, amount: float) -> str:
        """Return an amount with its unit."""
        return f"{amount:.3g} FLOPs" if self.by == "flops" else f"{amount:,.0f} tokens"


@contextmanager
def resumable(saved: str) -> Iterator[None]:
    """Turn Ctrl-C into an error that names the saved part and says that the same command resumes."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise StoppedError(f"stopped; {saved}, and {SAME_COMMAND} resumes") from stop
