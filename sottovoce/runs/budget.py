"""Budgets of runs that match another run's cost: the number of samples follows from it.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

Currency = Literal["flops", "tokens"]
UNITS: dict[Currency, str] = {"flops": "FLOPs", "tokens": "tokens"}


class Budget(BaseModel):
    """The budget of a self-consistency run, as means per discussion in FLOPs or tokens."""

    row: str
    """The run whose cost is matched."""
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
        """The number of samples whose cost is nearest to the target, at least one."""
        return max(1, round(1 + (self.target - self.first) / self.further))

    def told(self, amount: float) -> str:
        """Return an amount with its unit."""
        return f"{amount:.3g} {UNITS[self.by]}" if self.by == "flops" else f"{amount:,.0f} {UNITS[self.by]}"
