"""What a run may take before it is stopped: time, tokens, calls.

Nothing here imports torch or langgraph: the command line reads it to print its help.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from sottovoce.bounds import LONGEST_WAIT, Count
from sottovoce.checked import Checked
from sottovoce.errors import UsageError
from sottovoce.graphs.saver import POSTGRES, shown


class Limits(Checked):
    """Of a run as a whole; what was said stays, and a stopped run can be resumed."""

    model_config = ConfigDict(title="Limits")

    at_once: int = Field(default=32, ge=1, le=1_000, description="how many discussions are under way together")
    time_limit: float | None = Field(
        default=None,
        gt=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="stop after so many seconds (each time it is resumed)",
    )
    token_limit: Count | None = Field(default=None, gt=0, description="stop after so many tokens, read and written")
    call_limit: Count | None = Field(default=None, gt=0, description="stop after so many calls of models")

    workers: str | None = Field(
        default=None,
        description="hold discussions on a Ray cluster: ray (all its processors), or ray:4 (so many workers); "
        "RAY_ADDRESS names the cluster, else one is started here",
    )

    saver: str | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="where discussions stand that are not over: sqlite, in the run's folder; memory (one that is "
        "killed begins anew); or postgresql://USER@HOST/DB (default: sqlite)",
    )

    lost: Literal["refuse", "words"] = Field(
        default="refuse",
        description="a message whose payload is missing or damaged: refuse to go on, or hear its words alone",
    )

    @field_validator("saver")
    @classmethod
    def _place(cls, saver: str | None) -> str | None:
        if saver not in (None, "sqlite", "memory") and not POSTGRES.match(saver):
            raise UsageError(f"saver is {shown(saver)!r}; expected sqlite, memory or postgresql://USER@HOST/DATABASE")
        return saver

    @field_validator("workers")
    @classmethod
    def _known(cls, workers: str | None) -> str | None:
        if workers is not None and not re.fullmatch(r"ray(:[1-9]\d*)?", workers):
            raise UsageError(f"workers is {workers!r}; expected 'ray', or with their number 'ray:4'")
        return workers

    @property
    def counts(self) -> bool:
        """Whether calls or tokens are limited."""
        return self.call_limit is not None or self.token_limit is not None

    def reached(self, calls: int, tokens: int) -> str:
        """Which limit is reached, in words; empty where none is."""
        taken = (("call", calls, self.call_limit), ("token", tokens, self.token_limit))
        told = [f"the {name} limit is reached: {n:,} of {most:,}" for name, n, most in taken if most and n >= most]
        return told[0] if told else ""

    def out_of_time(self) -> str:
        """The time limit, in words."""
        return f"the time limit is reached: {self.time_limit:g} seconds"
